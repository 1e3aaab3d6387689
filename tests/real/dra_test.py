#!/usr/bin/env python3
"""Claims of devices (dynamic resource allocation) on emulated nodes, scheduled by the real kube-scheduler: docs/dra.md.

usage: dra_test.py GHOSTFLEET [--nodes N]
"""
import argparse
import json
import os
import subprocess
import sys
import time

import yaml

from cluster import Cluster, ready_nodes, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
MANIFESTS = os.path.join(HERE, "..", "..", "manifests")
RESOURCE = "/apis/resource.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = RESOURCE + "/namespaces/default/resourceclaims"
ACCOUNT = "system:serviceaccount:ghostfleet:ghostfleet"


def exactly(**request):
    return {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu.nvidia.com", **request}}]}}}


def pod(name, claim=None, template=None, behavior=None, node=None, extended=0):
    container = {"name": "c", "image": "registry.example/app:1"}
    spec = {"terminationGracePeriodSeconds": 1, "restartPolicy": "Never", "containers": [container]}
    if claim or template:
        spec["resourceClaims"] = [{"name": "gpus", **({"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template})}]
        container["resources"] = {"claims": [{"name": "gpus"}]}
    if extended:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(extended)}}
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "annotations": {"behavior.ghostfleet.dev/c": behavior} if behavior else {}}, "spec": spec}


class Test:
    def __init__(self, cluster, args):
        self.c, self.args = cluster, args
        self.env = {"GHOSTFLEET_HOME": cluster.path("home")}

    def check(self, what, condition, detail=""):
        print(f"{'ok  ' if condition else 'FAIL'} {what} {detail}", flush=True)
        if not condition:
            for name, process in self.c.processes.items():
                if name in ("fleet", "agent", "neuron"):
                    print(name, process.tail(), flush=True)
            sys.exit(1)

    def apply_manifests(self):
        self.c.kubectl("apply", "-f", os.path.join(MANIFESTS, "rbac.yaml"), "-f", os.path.join(MANIFESTS, "dra", "deviceclasses.yaml"))
        token = wait_for("a token", lambda: self.c.request("POST", "/api/v1/namespaces/ghostfleet/serviceaccounts/ghostfleet/token",
                                                           {"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": {"expirationSeconds": 3600}}), 20)
        self.kubeconfig = self.c.make_kubeconfig("fleet.kubeconfig", token[1]["status"]["token"])

    def start(self, name, *words):
        return self.c.add(name, [self.args.ghostfleet, *words], env=self.env)

    def start_fleet(self):
        return self.start("fleet", "fleet", "--kubeconfig", self.kubeconfig, "--nodes", str(self.args.nodes), "--profile", "p5.48xlarge", "--name", "t", "--dra",
                          "--kubelet-server", "off", "--summary", self.c.path("summary.json"))

    def slices(self, driver="gpu.nvidia.com", node=None):
        found = [s for s in self.c.items(RESOURCE + "/resourceslices") if s["spec"]["driver"] == driver]
        return [s for s in found if node is None or s["spec"]["nodeName"] == node]

    def pod(self, name):
        return self.c.get(f"{PODS}/{name}") or {}

    def phase(self, name):
        return self.pod(name).get("status", {}).get("phase")

    def device_of(self, claim):
        results = (self.c.get(f"{CLAIMS}/{claim}") or {}).get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
        return [(r["pool"], r["device"]) for r in results]

    # ---- what drivers publish

    def publishing(self):
        fleet = self.start_fleet()
        wait_for("nodes Ready", lambda: ready_nodes(self.c.items("/api/v1/nodes")) == self.args.nodes, 60)
        wait_for("a slice of each node", lambda: len(self.slices()) == self.args.nodes, 30)
        first = self.slices(node="t-0")[0]
        node = self.c.get("/api/v1/nodes/t-0")
        owner = first["metadata"]["ownerReferences"][0]
        self.check("the slice belongs to its node", owner["kind"] == "Node" and owner["uid"] == node["metadata"]["uid"] and
                   first["metadata"]["labels"]["ghostfleet.dev/fleet"] == "t")
        pool, devices = first["spec"]["pool"], first["spec"]["devices"]
        self.check("one pool of 8 GPUs", pool == {"name": "t-0", "generation": 1, "resourceSliceCount": 1} and [d["name"] for d in devices] == [f"gpu-{i}" for i in range(8)])
        self.check("with a GPU's attributes", devices[3]["attributes"]["productName"]["string"] == "NVIDIA H100 80GB HBM3" and
                   devices[3]["attributes"]["uuid"]["string"].startswith("GPU-") and devices[3]["capacity"]["memory"]["value"] in ("80Gi", "81920Mi"), json.dumps(devices[3]["attributes"]))
        self.check("no device plugin runs beside it", "nvidia.com/gpu" not in node["status"]["capacity"])
        uids = {s["metadata"]["uid"] for s in self.slices()}
        fleet.stop()
        self.start_fleet()
        wait_for("slices are made anew", lambda: len(self.slices()) == self.args.nodes and not uids & {s["metadata"]["uid"] for s in self.slices()}, 40)
        self.check("a restart removes the slices and publishes them again", True)

    # ---- claims

    def job(self):
        begin = time.monotonic()
        self.c.kubectl("apply", "-f", os.path.join(MANIFESTS, "dra", "example.yaml"))
        path = "/apis/batch/v1/namespaces/default/jobs/claims"
        wait_for("the Job is complete", lambda: any(x["type"] == "Complete" and x["status"] == "True" for x in (self.c.get(path) or {}).get("status", {}).get("conditions", [])), 60, 0.5)
        self.check("a Job of 100 pods with a claim each runs to its end", self.c.get(path)["status"]["succeeded"] == 100, f"after {time.monotonic() - begin:.1f} s")
        wait_for("no claim is left", lambda: not self.c.items(CLAIMS), 30)
        self.check("its claims are gone", True)

    def sharing(self):
        """Two pods have one claim; a claim for administration takes no device away; a restart changes nothing."""
        self.c.post(CLAIMS, {"metadata": {"name": "shared"}, **exactly(allocationMode="ExactCount", count=2)})
        for name in ("first", "second"):
            self.c.post(PODS, pod(name, claim="shared"))
        wait_for("both run", lambda: self.phase("first") == self.phase("second") == "Running", 30)
        first, second = self.pod("first"), self.pod("second")
        self.check("two pods share a claim on one node", first["spec"]["nodeName"] == second["spec"]["nodeName"])
        health = first["status"]["containerStatuses"][0].get("allocatedResourcesStatus")
        names = sorted(d for _, d in self.device_of("shared"))
        self.check("their status tells the devices and their health", health is not None and health[0]["name"] == "claim:gpus" and
                   sorted(r["resourceID"].rsplit("=", 1)[1] for r in health[0]["resources"]) == names and all(r["health"] == "Healthy" for r in health[0]["resources"]), json.dumps(health))
        self.c.request("PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}}, "application/merge-patch+json")
        self.c.post(CLAIMS, {"metadata": {"name": "admin"}, **exactly(allocationMode="All", adminAccess=True)})
        self.c.post(PODS, {**pod("monitor", claim="admin"), "spec": {**pod("monitor", claim="admin")["spec"], "nodeSelector": {"kubernetes.io/hostname": first["spec"]["nodeName"]}}})
        wait_for("it runs", lambda: self.phase("monitor") == "Running", 30)
        self.check("a claim for administration has all devices of the node, also those in use", len(self.device_of("admin")) == 8)
        before = {n: self.pod(n)["status"]["containerStatuses"][0]["state"] for n in ("first", "second", "monitor")}
        self.node = first["spec"]["nodeName"]
        old = self.slices(node=self.node)[0]["metadata"]["uid"]
        self.c.processes["fleet"].stop()
        self.start_fleet()
        wait_for("the slice is made anew", lambda: any(s["metadata"]["uid"] != old for s in self.slices(node=self.node)), 40)
        self.faults(names[0])
        self.check("after a restart the same containers run", before == {n: self.pod(n)["status"]["containerStatuses"][0]["state"] for n in before})
        self.c.request("DELETE", f"{PODS}/first")
        wait_for("the first is gone", lambda: not self.pod("first"), 30)
        self.check("the second keeps the claim", self.phase("second") == "Running" and [r["name"] for r in self.c.get(f"{CLAIMS}/shared")["status"]["reservedFor"]] == ["second"])
        for name in ("second", "monitor"):
            self.c.request("DELETE", f"{PODS}/{name}")
        wait_for("the claims are free", lambda: not self.device_of("shared") and not self.device_of("admin"), 30)
        self.check("the last pod gives it back", True)

    def annotate(self, faults):
        self.c.request("PATCH", f"/api/v1/nodes/{self.node}", {"metadata": {"annotations": {"dra.ghostfleet.dev/faults": faults}}}, "application/merge-patch+json")

    def taints(self, device):
        spec = (self.slices(node=self.node) or [{"spec": {"devices": [], "pool": {"generation": 0}}}])[0]["spec"]
        return next((d.get("taints") for d in spec["devices"] if d["name"] == device), None), spec["pool"]["generation"]

    def faults(self, device):
        self.annotate(f"{device}=xid:79")
        wait_for("a taint", lambda: self.taints(device)[0], 20)
        taints, generation = self.taints(device)
        self.check("a fault taints the device", taints[0]["key"] == "gpu.nvidia.com/xid" and taints[0]["value"] == "79" and taints[0]["effect"] == "NoSchedule" and generation >= 2, str(taints))

        def health():
            status = self.pod("second")["status"]["containerStatuses"][0].get("allocatedResourcesStatus", [])
            return next((r for s in status for r in s["resources"] if r["resourceID"].endswith("=" + device)), {})
        wait_for("Unhealthy", lambda: health().get("health") == "Unhealthy", 20)
        self.check("the status of a pod that has it says so, after a restart too", health().get("message") == "XID 79", str(health()))
        self.annotate(None)
        wait_for("no taint", lambda: not self.taints(device)[0] and health().get("health") == "Healthy", 20)
        self.check("without the fault all is as before", self.taints(device)[1] > generation)

    def failures(self):
        """What keeps a pod from its claim; and a driver that is away keeps it from its end."""
        self.c.post(CLAIMS, {"metadata": {"name": "free"}, **exactly()})
        self.c.post(PODS, pod("stranger", claim="free", node="t-1"))

        def event():
            return [e["message"] for e in self.c.items("/api/v1/namespaces/default/events") if e["reason"] == "FailedPrepareDynamicResources" and e["involvedObject"]["name"] == "stranger"]
        wait_for("an event", event, 30)
        uid = self.pod("stranger")["metadata"]["uid"]
        claim = self.c.get(f"{CLAIMS}/free")["metadata"]["uid"]
        self.check("who may not use the claim is told", event()[0] == f"Failed to prepare dynamic resources: prepare dynamic resources: pod stranger ({uid}) is not allowed to use "
                   f"ResourceClaim free ({claim})", event()[0])
        self.c.request("DELETE", f"{PODS}/stranger")
        self.c.post(PODS, {**pod("held", claim="free"), "spec": {**pod("held", claim="free")["spec"], "nodeSelector": {"kubernetes.io/hostname": "t-2"}}})
        wait_for("it runs", lambda: self.phase("held") == "Running", 30)
        self.node = "t-2"
        self.annotate("driver=down")
        wait_for("Unknown", lambda: [r["health"] for s in self.pod("held")["status"]["containerStatuses"][0]["allocatedResourcesStatus"] for r in s["resources"]] == ["Unknown"], 20)
        self.c.request("DELETE", f"{PODS}/held")
        time.sleep(4)
        self.check("without its driver a pod does not end", self.phase("held") == "Running")
        self.annotate(None)
        wait_for("it ends", lambda: not self.pod("held"), 40)
        self.check("and does when the driver is back", True)

    def extended(self):
        """nvidia.com/gpu of a pod is given by a claim that the scheduler makes."""
        self.c.post(PODS, pod("extended", extended=3))
        wait_for("it runs", lambda: self.phase("extended") == "Running", 30)
        status = self.pod("extended")["status"].get("extendedResourceClaimStatus")
        self.check("an extended resource comes from a claim", status is not None and len(self.device_of(status["resourceClaimName"])) == 3, json.dumps(status))
        self.c.request("DELETE", f"{PODS}/extended")
        wait_for("its claim is gone", lambda: not self.pod("extended") and self.c.get(f"{CLAIMS}/{status['resourceClaimName']}") is None, 40)

    def agent(self):
        """One node with its own identity: what NodeRestriction lets it do is enough."""
        node = self.c.make_kubeconfig("agent.kubeconfig", "token-of-alone")
        words = ["agent", "--kubeconfig", node, "--node-name", "alone", "--profile", "trn2.48xlarge", "--dra", "--kubelet-server", "off"]
        agent = self.start("agent", *words)
        wait_for("its slice", lambda: self.slices("neuron.aws.com", "alone"), 30)
        devices = self.slices("neuron.aws.com", "alone")[0]["spec"]["devices"]
        self.check("a node of its own identity publishes Neuron devices", len(devices) == 16 and devices[5]["attributes"]["resourceType"]["string"] == "neuron_device" and
                   devices[5]["attributes"]["resource.aws.com/devicegroup4_id"]["string"] == devices[4]["attributes"]["resource.aws.com/devicegroup4_id"]["string"])
        template = {"metadata": {"name": "four"}, "spec": {"spec": {"devices": {
            "requests": [{"name": "n", "exactly": {"deviceClassName": "neuron.aws.com", "count": 4}}],
            "constraints": [{"matchAttribute": "resource.aws.com/devicegroup4_id"}]}}}}
        self.c.post(RESOURCE + "/namespaces/default/resourceclaimtemplates", template)
        self.c.post(PODS, pod("training", template="four"))
        wait_for("it runs", lambda: self.phase("training") == "Running", 40)
        claim = self.pod("training")["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
        devices = {int(d.split("-")[1]) for _, d in self.device_of(claim)}
        self.check("four neighbours are its devices", len(devices) == 4 and len({d // 4 for d in devices}) == 1, str(devices))
        agent.stop()
        uid = self.slices("neuron.aws.com", "alone")[0]["metadata"]["uid"]
        self.start("agent", *words)
        wait_for("the slice is made anew", lambda: [s for s in self.slices("neuron.aws.com", "alone") if s["metadata"]["uid"] != uid], 30)
        wait_for("the pod is taken over", lambda: self.pod("training")["status"]["containerStatuses"][0].get("allocatedResourcesStatus"), 20)
        self.c.request("DELETE", f"{PODS}/training")
        wait_for("it ends", lambda: not self.pod("training") and self.c.get(f"{CLAIMS}/{claim}") is None, 40)
        self.check("after a restart the pod ends as before, and its claim goes with it", True)
        refused = [f"{e['verb']} {e['requestURI']}" for e in self.audit("system:node:alone") if e.get("responseStatus", {}).get("code") in (401, 403)]
        self.check("nothing the node asks is refused", not refused, str(refused[:3]))
        self.c.processes["agent"].stop()

    def audit(self, user):
        with open(self.c.audit) as log:
            return [e for e in map(json.loads, (line for line in log if line.endswith("\n"))) if e["user"]["username"] == user and "objectRef" in e]

    def rights(self):
        with open(os.path.join(MANIFESTS, "rbac.yaml")) as f:
            rules = next(d["rules"] for d in yaml.safe_load_all(f) if d["kind"] == "ClusterRole" and d["metadata"]["name"] == "ghostfleet-dra")
        wanted = {(v, r) for rule in rules for v in rule["verbs"] for r in rule["resources"]}
        entries = [e for e in self.audit(ACCOUNT) if e["objectRef"].get("apiGroup") == "resource.k8s.io"]
        used = {(e["verb"], e["objectRef"]["resource"]) for e in entries}
        self.check("exactly the rights of the manifest are used", used == wanted, f"unused {wanted - used}, more {used - wanted}")
        refused = [f"{e['verb']} {e['requestURI']}" for e in entries if e.get("responseStatus", {}).get("code") == 403]
        self.check("nothing is refused", not refused, str(refused[:3]))

    def down(self):
        self.c.processes["fleet"].stop()
        done = subprocess.run([self.args.ghostfleet, "down", "--kubeconfig", self.c.kubeconfig, "--fleet", "t"], capture_output=True, text=True, timeout=120, env={**os.environ, **self.env})
        self.check("down removes the slices", done.returncode == 0 and f"{self.args.nodes} ResourceSlices" in done.stdout and not self.slices(), done.stdout + done.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ghostfleet")
    parser.add_argument("--nodes", type=int, default=20)
    args = parser.parse_args()
    with Cluster(nodes=["alone"]) as cluster:
        t = Test(cluster, args)
        t.apply_manifests()
        t.publishing()
        t.job()
        t.sharing()
        t.failures()
        t.extended()
        t.agent()
        t.rights()
        t.down()


if __name__ == "__main__":
    main()
