#!/bin/sh
# run.sh OUT: profiles the pipeline with cProfile, and prints what took the most time.
python3 -m cProfile -o "$1" "$(dirname "$0")/../pipeline.py"
python3 -c 'import pstats, sys; pstats.Stats(sys.argv[1]).sort_stats("tottime").print_stats(10)' "$1"
