#!/usr/bin/env bash
# Runs a telling part of the Spark tests with another release of PySpark: tools/compat.sh 4.0.1 [tests...]
# Makes .venv-compat (VENV=... for another folder) from requirements.lock, with only PySpark replaced.
set -euo pipefail
cd "$(dirname "$0")/.."

spark=${1:-}
if [[ ! $spark =~ ^[0-9]+\.[0-9]+\.[0-9]+ ]]; then
  echo "compat: say which PySpark, in full: make compat SPARK=4.0.1" >&2
  exit 2
fi
shift
venv=${VENV:-.venv-compat}
python=${PYTHON:-.venv/bin/python}

if [ "$("$venv/bin/python" -c 'import pyspark; print(pyspark.__version__)' 2>/dev/null)" != "$spark" ]; then
  "$python" -m venv --clear "$venv"
  export PIP_DISABLE_PIP_VERSION_CHECK=1
  # py4j goes with PySpark, which asks for one version of it.
  grep -Ev '^(pyspark|py4j)==' requirements.lock >"$venv/requirements.txt"
  "$venv/bin/python" -m pip install --quiet -r "$venv/requirements.txt" "pyspark==$spark"
fi

# The package is not installed: pytest finds it in src/, and so must Spark's workers.
export PYTHONPATH=$PWD/src:$PWD
PYSPARK_PYTHON=$(cd "$venv/bin" && pwd)/python
export PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON=$PYSPARK_PYTHON

tests=(
  tests/engine
  tests/surface/test_operators.py
  tests/surface/test_queries.py
  tests/surface/test_against_spark.py
  tests/surface/test_file_sources.py
  tests/kernels/test_spark_agreement.py
  tests/kernels/test_translate_spark.py
)
if [ $# -gt 0 ]; then
  exec "$PYSPARK_PYTHON" -m pytest -q "$@"
fi
"$PYSPARK_PYTHON" -m pytest -q "${tests[@]}"
# Transcripts that together touch every operator, late rows, partitions and a restart.
exec "$PYSPARK_PYTHON" -m pytest -q tests/test_transcripts_rows.py tests/test_transcripts_crash.py -m spark \
  -k "mini_sliding or aggregate_of_aggregate or late_admit or dedup_within or sort or partitions_idle or join_outer or mini_rows"
