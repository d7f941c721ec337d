#!/bin/sh
# run.sh OUT: records every call of the pipeline with vor.
folder=$(dirname "$0")
python3 -m vor run --include "$folder" --out "$1" "$folder/pipeline.py"
