#!/usr/bin/env python3
"""500 followed logs at one fleet: what they cost, how late their lines are, and whether the leases notice.

Starts `ghostfleet up`, runs pods on some of its nodes, and follows their logs straight at the nodes' servers, each on its own TLS connection; some more clients
never read. Lateness of leases is taken from the program's own histogram, before and while the logs are followed.

usage: followers.py GHOSTFLEET [--nodes 10000] [--followers 500] [--silent 20] [--seconds 60]
"""
import argparse
import asyncio
import json
import os
import re
import ssl
import statistics
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "real"))
from cluster import Process  # noqa: E402

PODS = 50


class Fleet:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.kubeconfig = os.path.join(folder, "kubeconfig")
        command = [args.ghostfleet, "up", "--nodes", str(args.nodes), "--name", "f", "--port", "0", "--kubelet-port", "0", "--kubeconfig", self.kubeconfig, "--metrics-port", "0"]
        self.process = Process("fleet", command, folder, {"GHOSTFLEET_HOME": folder}).start()

    def text(self):
        with open(self.process.log) as f:
            return f.read()

    def wait(self, what, condition, seconds):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end or not self.process.running():
                raise SystemExit(f"{what}: not within {seconds} s\n" + self.text()[-2000:])
            time.sleep(0.5)

    def connect(self):
        with open(self.kubeconfig) as f:
            text = f.read()
        self.server = re.search(r"server: \"?(https://[^\s\"]+)", text)[1]
        self.token = re.search(r"token: \"?([^\s\"]+)", text)[1]

    def tls(self):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.server + path, method=method, data=None if body is None else json.dumps(body).encode(), headers={"Content-Type": "application/json", "Authorization": "Bearer " + self.token})
        with urllib.request.urlopen(request, context=self.tls(), timeout=30) as answer:
            return json.loads(answer.read())

    def metrics(self):
        with urllib.request.urlopen(re.search(r"metrics: (\S+)", self.text())[1], timeout=30) as answer:
            return answer.read().decode()

    def lateness(self):
        return [(float(m[1]), float(m[2])) for m in re.finditer(r'^ghostfleet_lease_lateness_seconds_bucket\{le="([0-9.e+-]+)"\} (\S+)', self.metrics(), re.M)]

    def run_pods(self):
        for i in range(PODS):
            self.call("POST", "/api/v1/namespaces/default/pods", {"metadata": {"name": f"p{i}", "annotations": {"behavior.ghostfleet.dev/c": 'log="line {n}" log-every=1s'}},
                                                                "spec": {"nodeName": f"f-{i}", "containers": [{"name": "c", "image": "a"}]}})
        self.wait("pods run", lambda: all(p["status"].get("phase") == "Running" for p in self.call("GET", "/api/v1/namespaces/default/pods")["items"]), 120)

    def address(self, i):
        status = self.call("GET", f"/api/v1/nodes/f-{i}")["status"]
        return next(a["address"] for a in status["addresses"] if a["type"] == "InternalIP"), status["daemonEndpoints"]["kubeletEndpoint"]["Port"]


def quantile(before, after, q):
    counts = [(edge, late - dict(before).get(edge, 0)) for edge, late in after]
    total = counts[-1][1] if counts else 0
    return next((edge for edge, n in counts if total and n >= q * total), 0)


async def open_log(fleet, context, i):
    host, port = fleet.addresses[i % PODS]
    reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=4096)
    writer.write(f"GET /containerLogs/default/p{i % PODS}/c?follow=true&timestamps=true&tailLines=1 HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {fleet.token}\r\n\r\n".encode())
    return reader, writer


async def follow(fleet, context, i, late):
    reader, writer = await open_log(fleet, context, i)
    while True:
        line = (await reader.readline()).decode()
        stamp = re.match(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d+)Z line", line)
        if stamp:
            at = time.mktime(time.strptime(stamp[1] + " UTC", "%Y-%m-%dT%H:%M:%S %Z")) - time.timezone + int(stamp[2][:3]) / 1000
            late.append((time.monotonic(), time.time() - at))
        elif not line:
            raise RuntimeError("a followed log ended")


async def measure(fleet, args):
    context, late = fleet.tls(), []
    idle = fleet.lateness()
    cpu, rss = fleet.process.cpu_seconds(), fleet.process.rss_bytes()
    await asyncio.sleep(args.seconds)
    before, idle_cpu = fleet.lateness(), fleet.process.cpu_seconds() - cpu
    silent = [await open_log(fleet, context, i) for i in range(args.silent)]
    for _, writer in silent:
        writer.transport.pause_reading()
    tasks = []
    for i in range(args.followers):  # a few at a time: a handshake that takes longer than 10 s is cut
        tasks.append(asyncio.create_task(follow(fleet, context, i, late)))
        if i % 20 == 19:
            await asyncio.sleep(0.5)
    await asyncio.sleep(10)
    opened, cpu = len(late), fleet.process.cpu_seconds()
    begin = time.monotonic()
    await asyncio.sleep(args.seconds)
    for task in tasks:
        if task.done():
            task.result()
    lines = [l for at, l in late[opened:] if at >= begin]
    busy_cpu = fleet.process.cpu_seconds() - cpu
    after = fleet.lateness()
    for task in tasks:
        task.cancel()
    row = lambda name, a, b: print(f"{name}: lease lateness p50 {quantile(a, b, 0.5) * 1000:.0f} ms, p99 {quantile(a, b, 0.99) * 1000:.0f} ms")
    row("before", idle, before)
    row("with followers", before, after)
    print(f"{len(lines) / args.seconds:.0f} lines/s, late p50 {statistics.median(lines) * 1000:.0f} ms, p99 {statistics.quantiles(lines, n=100)[98] * 1000:.0f} ms; "
          f"cpu {idle_cpu / args.seconds * 100:.1f} % before, {busy_cpu / args.seconds * 100:.1f} % with; memory {(fleet.process.rss_bytes() - rss) / (args.followers + args.silent) / 1024:.0f} KiB a client")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ghostfleet")
    parser.add_argument("--nodes", type=int, default=10000)
    parser.add_argument("--followers", type=int, default=500)
    parser.add_argument("--silent", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=60)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gf-followers-") as folder:
        fleet = Fleet(args, folder)
        try:
            fleet.wait("nodes Ready", lambda: f"Ready {args.nodes}/{args.nodes}" in fleet.text(), 300)
            fleet.connect()
            fleet.run_pods()
            fleet.addresses = [fleet.address(i) for i in range(PODS)]
            asyncio.run(measure(fleet, args))
        finally:
            fleet.process.stop(seconds=60)


if __name__ == "__main__":
    sys.exit(main())
