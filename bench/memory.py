#!/usr/bin/env python3
"""Memory of the emulator per idle node: `ghostfleet fleet` in a process of its own, against the embedded plane in another.

RSS of the fleet process with N nodes less that with one node, divided by N. usage: memory.py GHOSTFLEET [--nodes 100000]
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time


def fleet(ghostfleet, env, kubeconfig, nodes, name):
    child = subprocess.Popen([ghostfleet, "fleet", "--kubeconfig", kubeconfig, "--nodes", str(nodes), "--profile", "m5.large", "--name", name], stdout=subprocess.DEVNULL, env=env)
    while True:
        items = json.loads(subprocess.run([ghostfleet, "status", "-o", "json"], capture_output=True, text=True, env=env).stdout)["items"]
        mine = [i for i in items if i["name"] == name]
        if mine and mine[0]["ready"] == nodes:
            break
        if child.poll() is not None:
            sys.exit("the fleet ended")
        time.sleep(1)
    time.sleep(25)
    with open(f"/proc/{child.pid}/statm") as f:
        rss = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    child.terminate()
    child.wait()
    return rss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ghostfleet")
    parser.add_argument("--nodes", type=int, default=100000)
    parser.add_argument("--plane", help="another ghostfleet for the control plane")
    args = parser.parse_args()
    home = tempfile.mkdtemp(prefix="gf-memory-")
    env = {**os.environ, "GHOSTFLEET_HOME": home}
    kubeconfig = os.path.join(home, "kubeconfig")
    plane = subprocess.Popen([args.plane or args.ghostfleet, "controlplane", "--port", "0", "--kubeconfig", kubeconfig, "--data-dir", home], stdout=subprocess.DEVNULL, env=env)
    try:
        while not os.path.exists(kubeconfig):
            time.sleep(0.1)
        one = fleet(args.ghostfleet, env, kubeconfig, 1, "one")
        many = fleet(args.ghostfleet, env, kubeconfig, args.nodes, "many")
        print(json.dumps({"nodes": args.nodes, "rss_one_node": one, "rss": many, "bytes_per_node": (many - one) / args.nodes}))
    finally:
        plane.terminate()
        plane.wait()
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main()
