#!/usr/bin/env python3
"""The embedded plane with very many nodes: `up`, its summary, 10,000 pods, and a LIST by kubectl's own requests.

Everything runs on this machine's cores, TLS on, JSON, state in memory.

usage: plane.py GHOSTFLEET [--nodes 100000] [--hold 600] [--pods 10000]
"""
import argparse
import json
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.request


class Plane:
    def __init__(self, args):
        self.dir = tempfile.mkdtemp(prefix="gf-plane-")
        self.kubeconfig, self.summary = os.path.join(self.dir, "kubeconfig"), os.path.join(self.dir, "summary.json")
        self.log = open(os.path.join(self.dir, "log"), "w")
        self.env = {**os.environ, "GHOSTFLEET_HOME": self.dir}
        self.child = subprocess.Popen([args.ghostfleet, "up", "--nodes", str(args.nodes), "--profile", "m5.large", "--name", "bench", "--port", "0", "--kubeconfig", self.kubeconfig,
                                       "--summary", self.summary], stdout=self.log, stderr=self.log, env=self.env)
        self.context = self.server = self.token = None

    def connect(self):
        while not os.path.exists(self.kubeconfig):
            time.sleep(0.1)
        time.sleep(0.2)
        text = open(self.kubeconfig).read()
        self.server = text.split("server: ")[1].split()[0]
        self.token = text.split("token: ")[1].split()[0]
        self.context = ssl._create_unverified_context()

    def request(self, method, path, body=None, content_type="application/json"):
        request = urllib.request.Request(self.server + path, method=method, data=None if body is None else json.dumps(body).encode(),
                                         headers={"Authorization": "Bearer " + self.token, "Content-Type": content_type, "Accept": "application/json"})
        with urllib.request.urlopen(request, context=self.context, timeout=120) as answer:
            return answer.read()

    def status(self):
        items = json.loads(subprocess.run([args.ghostfleet, "status", "-o", "json"], capture_output=True, text=True, env=self.env).stdout)["items"]
        return items[0] if items else {}

    def cpu(self):
        with open(f"/proc/{self.child.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.child.send_signal(signal.SIGTERM)
        self.child.wait(60)
        summary = json.load(open(self.summary))
        shutil.rmtree(self.dir, ignore_errors=True)
        return summary


def list_nodes(plane):
    """As `kubectl get nodes -o json`: pages of 500. The server's CPU is the process's; the client is another process (this one)."""
    begin, cpu, count, token = time.monotonic(), plane.cpu(), 0, ""
    idle = plane.idle_cpu_rate
    while True:
        page = json.loads(plane.request("GET", "/api/v1/nodes?limit=500" + ("&continue=" + token if token else "")))
        count += len(page["items"])
        token = page["metadata"].get("continue", "")
        if not token:
            break
    seconds = time.monotonic() - begin
    return {"nodes": count, "seconds": seconds, "process_cpu_seconds": plane.cpu() - cpu, "less_idle": plane.cpu() - cpu - idle * seconds}


def run_pods(plane, count):
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
                  "spec": {"replicas": count, "selector": {"matchLabels": {"app": "web"}},
                           "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "registry.example/app:1"}]}}}}
    begin = time.monotonic()
    plane.request("POST", "/apis/apps/v1/namespaces/default/deployments", deployment)
    while True:
        status = json.loads(plane.request("GET", "/apis/apps/v1/namespaces/default/deployments/web")).get("status", {})
        if status.get("readyReplicas", 0) >= count:
            return time.monotonic() - begin
        if time.monotonic() - begin > 300:
            raise SystemExit(f"pods are not running: {status}")
        time.sleep(0.1)


def main():
    plane = Plane(args)
    try:
        plane.connect()
        while plane.status().get("ready_seconds") is None:
            time.sleep(1)
            if plane.child.poll() is not None:
                raise SystemExit("up ended: " + open(plane.log.name).read()[-2000:])
        first = plane.status()
        print("all Ready:", json.dumps({k: first[k] for k in ("nodes", "ready_seconds", "lateness", "cpu_seconds", "rss_bytes", "errors")}), flush=True)
        time.sleep(15)
        cpu, begin = plane.cpu(), time.monotonic()
        time.sleep(20)
        plane.idle_cpu_rate = (plane.cpu() - cpu) / (time.monotonic() - begin)
        print("idle: %.2f cores" % plane.idle_cpu_rate, flush=True)
        print("list:", json.dumps(list_nodes(plane)), flush=True)
        if args.pods:
            print("pods: %d of one Deployment, created to all Ready: %.1f s" % (args.pods, run_pods(plane, args.pods)), flush=True)
        time.sleep(args.hold)
    finally:
        print("summary:", json.dumps(plane.end()), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("ghostfleet")
    parser.add_argument("--nodes", type=int, default=100000)
    parser.add_argument("--hold", type=int, default=600)
    parser.add_argument("--pods", type=int, default=10000)
    args = parser.parse_args()
    main()
