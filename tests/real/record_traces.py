#!/usr/bin/env python3
"""Records what a real kubelet does for pod files (record.py): how tests/data/traces/recorded was made and is added to.

usage: record_traces.py OUT_DIR POD_FILE... [--seconds 100] [--at-once 20]

Needs an idle machine: a kubelet short of CPU is late, and its caches time out. Look at a recording before it is kept.
"""
import argparse
import os
import sys
import time

from cluster import Cluster, free_port, program
from kubelet_test import wait_ready
from record import Recorder

NODE = "oracle-0"


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    parser.add_argument("out")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--seconds", type=float, default=100)
    parser.add_argument("--at-once", type=int, default=20)
    args = parser.parse_args()
    with Cluster(nodes=[NODE]) as c:
        os.makedirs(c.path("manifests"))
        kubeconfig = c.make_kubeconfig("node.kubeconfig", "token-of-" + NODE)
        c.add("kubelet", [program("kubelet"), "--kubeconfig", kubeconfig, "--name", NODE, "--port", str(free_port()), "--extended", "nvidia.com/gpu=8",
                          "--manifests", c.path("manifests")])
        wait_ready(c, NODE)
        time.sleep(2)
        recorder = Recorder(c, NODE, "default", args.out, args.seconds, c.path("manifests"))
        recorder.run(args.files, args.at_once)
        for error in recorder.errors:
            print(error)
        return 1 if recorder.errors else 0


if __name__ == "__main__":
    sys.exit(main())
