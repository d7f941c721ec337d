#!/bin/sh
# run.sh OUT: traces every call of the pipeline with viztracer.
folder=$(dirname "$0")
viztracer --quiet --ignore_c_function --include_files "$folder" -o "$1" "$folder/pipeline.py"
