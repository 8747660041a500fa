# What the tests of the program expect of a command; sourced by them.
fail() { echo "FAILED: $*" >&2; exit 1; }

expect_exit() {  # expect_exit CODE TEXT COMMAND...: the exit code, and what the message must hold
  local code=$1 text=$2 status=0
  shift 2
  "$@" >out.txt 2>&1 || status=$?
  [ "$status" -eq "$code" ] || fail "$* ended with $status, wanted $code: $(cat out.txt)"
  grep -q -- "$text" out.txt || fail "$* did not say '$text': $(cat out.txt)"
}
