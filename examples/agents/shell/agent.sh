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

# look_up SESSION BRANCH: the tool's answer, from evalgate where that records, replays or mocks tools; fails if refused.
# With one conversation at a time, the next line is evalgate's answer.
look_up() {
  if [ -z "$asks" ]; then hours=$(opening_hours "$2"); return; fi
  calls=$((calls + 1))
  say "{\"type\":\"tool_call\",\"session\":\"$1\",\"call\":\"t$calls\",\"name\":\"opening_hours\",\"args\":{\"branch\":\"$2\"}}"
  IFS= read -r told
  case $told in
    *'"run":true'*)
      hours=$(opening_hours "$2")
      case $told in
        *'"report":true'*)
          say "{\"type\":\"tool_result\",\"session\":\"$1\",\"call\":\"t$calls\",\"response\":{\"hours\":\"$hours\"}}" ;;
      esac ;;
    *'"response":{"hours":"'*)
      hours=${told#*\"hours\":\"}
      hours=${hours%%\"*} ;;
    *) return 1 ;;
  esac
}

# answer SESSION TEXT
answer() {
  case $2 in
    *[Cc]entral*) branch=central ;;
    *[Hh]arbour*) branch=harbour ;;
    *)
      event "$1" '{"text":"We have two branches: Central and Harbour. Which one?"}' true
      return 0 ;;
  esac
  event "$1" "{\"function_call\":{\"name\":\"opening_hours\",\"args\":{\"branch\":\"$branch\"}}}" false
  look_up "$1" "$branch" || return 1
  event "$1" "{\"function_response\":{\"name\":\"opening_hours\",\"response\":{\"hours\":\"$hours\"}}}" false
  event "$1" "{\"text\":\"The $branch branch is open from $hours.\"}" true
}

while IFS= read -r line; do
  session=${line#*\"session\":\"}
  session=${session%%\"*}
  case $line in
    '{"type":"hello"'*)
      sessions=4 asks='' calls=0
      case $line in *',"tools":"'*) sessions=1 asks=yes ;; esac
      say "{\"type\":\"ready\",\"protocol\":1,\"sessions\":$sessions,\"tools\":true,\"about\":{\"framework\":\"sh\"}}" ;;
    '{"type":"start"'*) say "{\"type\":\"started\",\"session\":\"$session\"}" ;;
    '{"type":"turn"'*)
      if answer "$session" "${line#*\"content\":}"; then
        say "{\"type\":\"turn_end\",\"session\":\"$session\"}"
      else
        say "{\"type\":\"turn_failed\",\"session\":\"$session\",\"message\":\"the tool gave no answer\"}"
      fi ;;
    '{"type":"end"'*) say "{\"type\":\"ended\",\"session\":\"$session\"}" ;;
    '{"type":"bye"'*) exit 0 ;;
  esac
done
