WORD = object()
