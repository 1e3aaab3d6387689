#!/usr/bin/env python3
"""Public reports about emulated nodes and home-made API servers, tried on the embedded control plane; docs/cases.md tells what came out.

usage: cases_test.py GHOSTFLEET [--jobs N] [--repeat N] [CASE...]

Without a CASE (C001) all that do not take long. --repeat tries each so often; some take ten minutes and run by name only (C017A). Inputs are in
tests/data/cases. Each case has a control plane of its own, and many run at the same time, since most of a case is waiting.
"""
import argparse
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import cases_api  # noqa: F401
import cases_devices  # noqa: F401
import cases_health  # noqa: F401
import cases_images  # noqa: F401
import cases_network  # noqa: F401
import cases_nodes  # noqa: F401
import cases_pods  # noqa: F401
from case_support import BY_HAND, CASES, Case
from plane import Plane


def run(ghostfleet, name):
    function, flags = {**CASES, **BY_HAND}[name]
    begin = time.monotonic()
    try:
        with Plane(ghostfleet, *flags) as plane:
            t = Case(name, plane)
            try:
                function(t)
            except BaseException:
                for child in t.children:
                    with open(child.log) as log:
                        print(name, log.read()[-800:], flush=True)
                raise
            finally:
                t.end()
    except Exception:
        print(f"FAIL {name} after {time.monotonic() - begin:.0f} s\n{traceback.format_exc()}", flush=True)
        return False
    print(f"ok   {name} {time.monotonic() - begin:.0f} s: {function.__doc__}", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ghostfleet")
    parser.add_argument("cases", nargs="*", metavar="CASE")
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=1)
    args = parser.parse_intermixed_args()
    names = args.cases or list(CASES)
    unknown = [n for n in names if n not in CASES and n not in BY_HAND]
    if unknown:
        parser.error(f"no case is named {', '.join(unknown)}; there are: {', '.join([*CASES, *BY_HAND])}")
    # The long ones first, so that the end is not a wait for one of them.
    names.sort(key=lambda n: (n[:4] not in ("C028", "C029", "C034", "C001", "C017", "C061", "C065", "C066", "C041", "C046"), n))
    with ThreadPoolExecutor(args.jobs) as pool:
        good = list(pool.map(lambda name: run(args.ghostfleet, name), [n for n in names for _ in range(args.repeat)]))
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
