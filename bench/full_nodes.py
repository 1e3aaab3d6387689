#!/usr/bin/env python3
"""What nodes in full fidelity cost: file descriptors, memory and CPU of the emulator, and of the API server that carries them.

`ghostfleet fleet --fidelity full` in a process of its own against a real kube-apiserver (tests/real/cluster.py) or the embedded plane. Memory of a node is the fleet's
resident memory with N nodes less that with ten, divided; CPU is that of the idle fleet, from one minute after all are Ready.

usage: full_nodes.py GHOSTFLEET [--nodes 2000] [--plane real|embedded] [--identity shared|per-node] [--seconds 60]
"""
import argparse
import contextlib
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "real"))
from cluster import Cluster, Process, wait_for  # noqa: E402


@contextlib.contextmanager
def embedded(ghostfleet):
    home = tempfile.mkdtemp(prefix="gf-full-")
    kubeconfig = os.path.join(home, "kubeconfig")
    plane = Process("plane", [ghostfleet, "controlplane", "--port", "0", "--kubeconfig", kubeconfig, "--data-dir", home], home, {"GHOSTFLEET_HOME": home}).start()
    try:
        wait_for("the plane", lambda: os.path.exists(kubeconfig), 30)
        yield kubeconfig, plane, home
    finally:
        plane.stop()
        shutil.rmtree(home, ignore_errors=True)


@contextlib.contextmanager
def real(_):
    # The controller manager signs; a thousand nodes that start ask for more than the default 600 requests at once.
    with Cluster(scheduler=False, flags=["--max-requests-inflight=3000", "--max-mutating-requests-inflight=1000"]) as c:
        yield c.kubeconfig, c.processes["apiserver"], c.dir


def status(ghostfleet, env, name):
    text = subprocess.run([ghostfleet, "status", "-o", "json"], capture_output=True, text=True, env=env).stdout
    return next((i for i in json.loads(text)["items"] if i["name"] == name), {})


def run(args, plane, nodes, name, seconds):
    kubeconfig, server, home = plane
    env = {**os.environ, "GHOSTFLEET_HOME": home}
    fleet = Process(name, [args.ghostfleet, "fleet", "--kubeconfig", kubeconfig, "--nodes", str(nodes), "--profile", "m5.large", "--name", name, "--fidelity", "full",
                           "--identity", args.identity, "--shards", "1"], home, env).start()
    begin = time.monotonic()

    def all_ready():
        if not fleet.running():
            sys.exit("the fleet ended:\n" + fleet.tail())
        return status(args.ghostfleet, env, name).get("ready") == nodes
    wait_for(f"{nodes} nodes Ready", all_ready, 600, 1)
    ready = time.monotonic() - begin
    time.sleep(60 if seconds > 20 else 15)
    cpu, server_cpu, at = fleet.cpu_seconds(), server.cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - at
    out = {"ready_seconds": round(ready, 1), "rss": fleet.rss_bytes(), "descriptors": len(os.listdir(f"/proc/{fleet.child.pid}/fd")), "server_rss": server.rss_bytes(),
           "cpu_of_a_core": round((fleet.cpu_seconds() - cpu) / elapsed, 4), "server_cpu_of_a_core": round((server.cpu_seconds() - server_cpu) / elapsed, 3)}
    state = status(args.ghostfleet, env, name)
    out.update({k: state.get(k) for k in ("errors", "lateness", "not_ready_transitions")})
    fleet.stop()
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ghostfleet")
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--plane", choices=["real", "embedded"], default="embedded")
    parser.add_argument("--identity", choices=["shared", "per-node"], default="shared")
    parser.add_argument("--seconds", type=int, default=60)
    args = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4 * args.nodes + 1024), hard), hard))
    with (real if args.plane == "real" else embedded)(args.ghostfleet) as plane:
        few = run(args, plane, 10, "few", 5)
        many = run(args, plane, args.nodes, "many", args.seconds)
    many["bytes_per_node"] = round((many["rss"] - few["rss"]) / (args.nodes - 10))
    many["descriptors_per_node"] = round((many["descriptors"] - few["descriptors"]) / (args.nodes - 10), 3)
    many["cpu_us_per_node_and_second"] = round(many["cpu_of_a_core"] / args.nodes * 1e6, 1)
    print(json.dumps({"plane": args.plane, "identity": args.identity, "nodes": args.nodes, **many}))


if __name__ == "__main__":
    main()
