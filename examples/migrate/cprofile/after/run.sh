#!/bin/sh
# run.sh OUT: profiles the pipeline with vor, and prints what took the most time.
python3 -m vor run --out "$1" "$(dirname "$0")/../pipeline.py"
python3 -m vor stats --sort self -n 10 "$1"
