#!/usr/bin/env python3
"""Claims of devices on the embedded control plane alone: its controller makes them, its scheduler allocates, its nodes prepare (docs/dra.md).

usage: dra_test.py GHOSTFLEET
"""
import os
import subprocess
import sys

import yaml

from plane import Plane

MANIFESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "manifests", "dra")
RESOURCE = "/apis/resource.k8s.io/v1"
CLAIMS = RESOURCE + "/namespaces/default/resourceclaims"
PODS = "/api/v1/namespaces/default/pods"
PATHS = {"DeviceClass": RESOURCE + "/deviceclasses", "ResourceClaimTemplate": RESOURCE + "/namespaces/default/resourceclaimtemplates",
         "Job": "/apis/batch/v1/namespaces/default/jobs"}


class Test:
    def __init__(self, plane):
        self.p = plane

    def check(self, what, condition, detail=""):
        print(f"{'ok  ' if condition else 'FAIL'} {what} {detail}", flush=True)
        if not condition:
            sys.exit(1)

    def get(self, path):
        code, body = self.p.request("GET", path)
        return body if code == 200 else None

    def items(self, path):
        return self.p.request("GET", path)[1]["items"]

    def post(self, path, body):
        code, answer = self.p.request("POST", path, body)
        self.check(f"POST {path}", code == 201, "" if code == 201 else str(answer))

    def apply(self, file):
        with open(os.path.join(MANIFESTS, file)) as f:
            for document in yaml.safe_load_all(f):
                self.post(PATHS[document["kind"]], document)

    def pod(self, name, claim, node=None):
        spec = {"terminationGracePeriodSeconds": 1, "resourceClaims": [{"name": "gpus", "resourceClaimName": claim}],
                "containers": [{"name": "c", "image": "registry.example/app:1", "resources": {"claims": [{"name": "gpus"}]}}]}
        if node:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        self.post(PODS, {"metadata": {"name": name}, "spec": spec})

    def claim(self, name, selector=None, **request):
        if selector:
            request["selectors"] = [{"cel": {"expression": selector}}]
        self.post(CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com", **request}}]}}})

    def phase(self, name):
        return (self.get(f"{PODS}/{name}") or {}).get("status", {}).get("phase")

    def refusal(self, name):
        conditions = self.get(f"{PODS}/{name}")["status"].get("conditions", [])
        return next((c["message"] for c in conditions if c["type"] == "PodScheduled" and c["status"] == "False"), "")

    def devices(self, claim):
        results = (self.get(f"{CLAIMS}/{claim}") or {}).get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
        return [(r["pool"], r["device"]) for r in results]

    def run(self):
        self.p.wait("a slice of each node", lambda: len(self.items(RESOURCE + "/resourceslices")) == 20, 30)
        self.apply("deviceclasses.yaml")
        self.apply("example.yaml")
        job = "/apis/batch/v1/namespaces/default/jobs/claims"
        self.p.wait("the Job is complete", lambda: self.get(job)["status"].get("succeeded") == 100, 60)
        self.check("a Job of 100 pods with a claim each runs to its end", True)
        self.p.wait("no claim is left", lambda: not self.items(CLAIMS), 30)
        self.check("its claims are gone", True)

        self.claim("two", "device.attributes['gpu.nvidia.com'].productName.startsWith('NVIDIA H100')", count=2)
        self.pod("a", "two")
        self.pod("b", "two")
        self.p.wait("both run", lambda: self.phase("a") == self.phase("b") == "Running", 20)
        node = self.get(f"{PODS}/a")["spec"]["nodeName"]
        self.check("two pods share a claim", len(self.devices("two")) == 2 and self.get(f"{PODS}/b")["spec"]["nodeName"] == node and
                   {r["name"] for r in self.get(f"{CLAIMS}/two")["status"]["reservedFor"]} == {"a", "b"})
        self.claim("seven", count=7)
        self.pod("c", "seven", node)
        self.p.wait("it waits", lambda: "cannot allocate all claims" in self.refusal("c"), 20)
        self.check("what is in use is not given twice", not self.devices("seven"), self.refusal("c"))
        for name in ("a", "b"):
            self.p.request("DELETE", f"{PODS}/{name}")
        self.p.wait("it runs", lambda: self.phase("c") == "Running", 30)
        self.check("what is given back is free for others", len(self.devices("seven")) == 7)

        self.claim("cold", "device.attributes['gpu.nvidia.com'].temperature < 50")
        self.pod("d", "cold")
        self.p.wait("it is told", lambda: "no such key: temperature" in self.refusal("d"), 20)
        code, answer = self.p.request("POST", CLAIMS, {"metadata": {"name": "odd"}, "spec": {"devices": {"requests": [{"name": "r", "exactly": {
            "deviceClassName": "gpu.nvidia.com", "selectors": [{"cel": {"expression": "device.driver.sounds('gpu')"}}]}}]}}})
        self.check("a selector that makes no sense is refused", code == 422 and "the function is not known here" in answer["message"], answer["message"])

        for name in ("c", "d"):
            self.p.request("DELETE", f"{PODS}/{name}")
        self.p.wait("all are gone", lambda: not self.items(PODS + "?labelSelector=!job-name"), 30)
        faults = "; ".join(f"gpu-{i}=xid:79" for i in range(1, 8))
        self.p.request("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"annotations": {"dra.ghostfleet.dev/faults": faults}}}, "application/merge-patch+json")
        self.p.wait("taints", lambda: sum("taints" in d for s in self.items(RESOURCE + "/resourceslices") if s["spec"]["nodeName"] == node
                                          for d in s["spec"]["devices"]) == 7, 20)
        self.claim("healthy", count=2)
        self.pod("f", "healthy", node)
        self.p.wait("it waits", lambda: "cannot allocate all claims" in self.refusal("f"), 20)
        self.claim("any", count=2, tolerations=[{"key": "gpu.nvidia.com/xid", "operator": "Exists"}])
        self.pod("g", "any", node)
        self.p.wait("it runs", lambda: self.phase("g") == "Running", 20)
        self.check("a device with a taint goes to who tolerates it", True)
        self.extended()
        self.own_identities()

    def extended(self):
        """nvidia.com/gpu of a pod comes from a claim that the scheduler makes."""
        limits = {"limits": {"nvidia.com/gpu": "3"}}
        self.post(PODS, {"metadata": {"name": "x"}, "spec": {"terminationGracePeriodSeconds": 1, "containers": [
            {"name": "c", "image": "registry.example/app:1", "resources": limits}, {"name": "d", "image": "registry.example/app:1"}]}})
        self.p.wait("it runs", lambda: self.phase("x") == "Running", 20)
        status = self.get(f"{PODS}/x")["status"].get("extendedResourceClaimStatus", {})
        self.check("an extended resource comes from a claim", len(self.devices(status.get("resourceClaimName"))) == 3 and
                   status["requestMappings"] == [{"containerName": "c", "resourceName": "nvidia.com/gpu", "requestName": "container-0-request-0"}], str(status))
        self.p.request("DELETE", f"{PODS}/x")
        self.p.wait("its claim is gone", lambda: self.get(f"{CLAIMS}/{status['resourceClaimName']}") is None, 30)
        self.check("and goes with the pod", True)

    def own_identities(self):
        """Nodes that are their own users may publish what is theirs, remove it, and read the claims of their pods."""
        command = [self.p.ghostfleet, "fleet", "--kubeconfig", self.p.kubeconfig, "--nodes", "2", "--name", "own", "--identity", "per-node", "--profile", "trn2.48xlarge",
                   "--dra", "--kubelet-server", "off"]
        self.post(CLAIMS, {"metadata": {"name": "four"}, "spec": {"devices": {
            "requests": [{"name": "r", "exactly": {"deviceClassName": "neuron.aws.com", "count": 4}}],
            "constraints": [{"matchAttribute": "resource.aws.com/devicegroup4_id"}]}}})
        self.pod("training", "four")
        uids = set()
        for attempt in range(2):
            with open(os.path.join(self.p.home, "own.log"), "w+") as log:
                fleet = subprocess.Popen(command, stdout=log, stderr=log, env=self.p.env)
                try:
                    self.p.wait("their slices, made anew", lambda: len(self.neuron_slices() - uids) == 2, 60)
                    self.p.wait("a pod with their devices runs", lambda: self.phase("training") == "Running", 60)
                finally:
                    fleet.terminate()
                    fleet.wait(20)
                log.seek(0)
                text = log.read()
            self.check("nothing is refused", "refuse" not in text and "forbidden" not in text, text[-300:] if "refuse" in text or "forbidden" in text else "")
            uids = self.neuron_slices()
        numbers = {int(d.split("-")[1]) // 4 for _, d in self.devices("four")}
        self.check("four neighbours are its devices", len(self.devices("four")) == 4 and len(numbers) == 1, str(numbers))

    def neuron_slices(self):
        return {s["metadata"]["uid"] for s in self.items(RESOURCE + "/resourceslices") if s["spec"]["driver"] == "neuron.aws.com"}


def main():
    with Plane(sys.argv[1], "--profile", "p5.48xlarge", "--dra", nodes=20) as plane:
        Test(plane).run()


if __name__ == "__main__":
    main()
