#!/usr/bin/env bash
# Makes .venv from requirements.lock. Needs nothing but a Python with venv and pip, and Java for Spark.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() {
  printf '\nslackwater setup: %s\n' "$1" >&2
  shift
  printf '  %s\n' "$@" >&2
  exit 1
}

# --- Python: $PYTHON if given, else the first of the usual names that is new enough ---------------
new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; }

python=""
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.10 python}; do
  if command -v "$candidate" >/dev/null 2>&1 && new_enough "$candidate"; then
    python=$candidate
    break
  fi
done
if [ -z "$python" ]; then
  fail "Python 3.10 or newer is needed; ${PYTHON:-python3} is $( (${PYTHON:-python3} --version 2>&1 || true) | head -n 1)." \
    "Debian, Ubuntu: sudo apt install python3 python3-venv" \
    "macOS:          brew install python@3.12" \
    "Installed under another name? Say: make setup PYTHON=<the command>"
fi

# --- Java: Spark 4 runs on 17 or newer ------------------------------------------------------------
java=java
if [ -n "${JAVA_HOME:-}" ]; then java=$JAVA_HOME/bin/java; fi
java_version=$( ("$java" -version 2>&1 || true) | sed -n 's/.*version "\{0,1\}\([0-9][0-9._]*\).*/\1/p' | head -n 1)
# "17.0.15" gives 17; the old "1.8.0_402" gives 1, which is too old as well.
java_major=${java_version%%.*}
if [ "${java_major:-0}" -lt 17 ]; then
  if [ -n "$java_version" ]; then found="$java is version $java_version"; else found="$java does not run"; fi
  fail "Java 17 or newer is needed by Spark; $found." \
    "Debian, Ubuntu: sudo apt install openjdk-17-jre-headless" \
    "macOS:          brew install openjdk@17" \
    "Installed elsewhere? Point JAVA_HOME at it: export JAVA_HOME=<folder that holds bin/java>"
fi

# --- the environment ------------------------------------------------------------------------------
if ! new_enough .venv/bin/python || ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
  "$python" -m venv --clear .venv ||
    fail "$python cannot make a virtual environment." \
      "Debian, Ubuntu: sudo apt install python3-venv"
fi
export PIP_DISABLE_PIP_VERSION_CHECK=1
echo "installing into .venv (the first time this takes a few minutes: Spark is large)"
.venv/bin/python -m pip install --quiet -r requirements.lock
# The build backend stands in the lock, so the package itself needs nothing more from the network.
.venv/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .
echo "ready: $(.venv/bin/python --version), Java $java_version"
