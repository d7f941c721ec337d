"""python3 -m views SPANS VIEWER ARGUMENT...: compares what a viewer shows with recorded spans.

SPANS are lines of JSON as the test `recorder_views` writes them, each thread's in pre-order. The
viewers and their arguments:

firefox CLI                             the command line of the Firefox Profiler, with the profile
pprof RAW                               the output of `go tool pprof -raw`
speedscope INDEX FILE CHROMIUM SCRATCH  the viewer's page, the profile, a browser, a folder
flamegraph SVG                          a flame graph of inferno

The Firefox Profiler, pprof and the flame graph must show the same stacks with the same times.
A headless speedscope shows only a table per thread. Its names and times are compared to the last
digit that it shows.
"""
import sys

from . import firefox, flamegraph, pprof, spans, speedscope

VIEWERS = {
    "firefox": firefox, "flamegraph": flamegraph, "pprof": pprof, "speedscope": speedscope,
}


def main(argv):
    if len(argv) < 2 or argv[1] not in VIEWERS:
        sys.exit(__doc__)
    path, viewer, *arguments = argv
    try:
        print(VIEWERS[viewer].check(*spans.read(path), *arguments))
    except spans.Mismatch as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
