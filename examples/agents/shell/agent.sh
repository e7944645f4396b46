#!/bin/sh
# A library's opening hours, in POSIX shell without any other program: evalgate's agent protocol (docs/agent-protocol.md).
# evalgate writes compact JSON with `type` and `session` first, so two cuts find them; quotes within texts are escaped.

say() { printf '%s\n' "$1"; }

# event SESSION PARTS FINAL
event() {
  say "{\"type\":\"event\",\"session\":\"$1\",\"author\":\"hours\",\"content\":{\"role\":\"model\",\"parts\":[$2]},\"final\":$3}"
}

# The one tool.
opening_hours() {
  case $1 in
    central) echo '9 to 20' ;;
    harbour) echo '12 to 18' ;;
  esac
}

# answer SESSION TEXT
answer() {
  case $2 in
    *[Cc]entral*) branch=central ;;
    *[Hh]arbour*) branch=harbour ;;
    *)
      event "$1" '{"text":"We have two branches: Central and Harbour. Which one?"}' true
      return ;;
  esac
  event "$1" "{\"function_call\":{\"name\":\"opening_hours\",\"args\":{\"branch\":\"$branch\"}}}" false
  hours=$(opening_hours "$branch")
  event "$1" "{\"function_response\":{\"name\":\"opening_hours\",\"response\":{\"hours\":\"$hours\"}}}" false
  event "$1" "{\"text\":\"The $branch branch is open from $hours.\"}" true
}

while IFS= read -r line; do
  session=${line#*\"session\":\"}
  session=${session%%\"*}
  case $line in
    '{"type":"hello"'*) say '{"type":"ready","protocol":1,"sessions":4,"about":{"framework":"sh"}}' ;;
    '{"type":"start"'*) say "{\"type\":\"started\",\"session\":\"$session\"}" ;;
    '{"type":"turn"'*)
      answer "$session" "${line#*\"content\":}"
      say "{\"type\":\"turn_end\",\"session\":\"$session\"}" ;;
    '{"type":"end"'*) say "{\"type\":\"ended\",\"session\":\"$session\"}" ;;
    '{"type":"bye"'*) exit 0 ;;
  esac
done
