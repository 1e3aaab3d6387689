#!/usr/bin/env python3
"""A DRA driver that is a program, Kubernetes' own test driver and unmodified, with our node (ghostfleet agent --kubelet-root): it registers over the
node's sockets and publishes its devices, the real kube-scheduler allocates them, our node has them prepared and given back.

usage: dra_driver_test.py GHOSTFLEET
"""
import json
import os
import signal
import sys
import time

from cluster import SKIPPED, Cluster, program, ready_nodes, wait_for

DRIVER = "test-driver.cdi.k8s.io"
RESOURCE = "/apis/resource.k8s.io/v1"
PODS = "/api/v1/namespaces/default/pods"


def pod(name, behavior=None, claim=None):
    source = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": "one"}
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"claims": [{"name": "device"}]}}
    spec = {"terminationGracePeriodSeconds": 1, "restartPolicy": "Never", "containers": [container], "resourceClaims": [{"name": "device", **source}]}
    return {"metadata": {"name": name, "annotations": {"behavior.ghostfleet.dev/c": behavior} if behavior else {}}, "spec": spec}


class Test:
    def __init__(self, cluster, ghostfleet):
        self.c, self.root, self.cdi = cluster, cluster.path("kubelet"), cluster.path("cdi")
        self.agent = cluster.add("agent", [ghostfleet, "-v", "agent", "--kubeconfig", cluster.kubeconfig, "--node-name", "n1", "--capacity", "cpu=16,memory=64Gi,pods=110",
                                           "--kubelet-root", self.root], env={"GHOSTFLEET_HOME": cluster.path("home")})
        wait_for("node Ready", lambda: ready_nodes(cluster.items("/api/v1/nodes")) == 1, 60)
        os.makedirs(os.path.join(self.root, "plugins", DRIVER))
        self.driver = cluster.add("driver", [program("test-driver"), "--kubeconfig", cluster.kubeconfig, "-v", "5", "kubelet-plugin", "--node-name", "n1", "--num-devices", "2",
                                             "--plugin-registration-path", os.path.join(self.root, "plugins_registry"),
                                             "--datadir", os.path.join(self.root, "plugins"), "--cdi-dir", self.cdi])

    def slices(self):
        return [s for s in self.c.items(RESOURCE + "/resourceslices") if s["spec"]["driver"] == DRIVER]

    def published(self):
        wait_for("slices of the driver", lambda: sum(len(s["spec"]["devices"]) for s in self.slices()) == 2, 60)

    def prepared(self):
        """What the driver holds for containers, by its own account."""
        return len(os.listdir(self.cdi)) if os.path.isdir(self.cdi) else 0

    def noted(self):
        """The claims that the node has on disk."""
        with open(os.path.join(self.root, "dra_manager_state")) as f:
            return json.loads(json.load(f)["Data"])["ClaimInfoStateList"] or []

    def status(self, name, phase, seconds=60):
        def now():
            status = (self.c.get(f"{PODS}/{name}") or {}).get("status", {})
            return status if status.get("phase") == phase else None
        return wait_for(f"pod {name} {phase}", now, seconds)

    def events(self, name):
        found = self.c.items(f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3D{name}")
        return [f"{e['reason']}: {e['message']}" for e in found]

    def gone(self, name, seconds=60):
        wait_for(f"pod {name} gone", lambda: self.c.get(f"{PODS}/{name}") is None, seconds)

    def held(self, name):
        told = self.status(name, "Running")["containerStatuses"][0].get("allocatedResourcesStatus", [])
        return [(one["name"], r["resourceID"], r["health"]) for one in told for r in one["resources"]]

    def delete(self, name):
        self.c.request("DELETE", f"{PODS}/{name}")

    def a_pod_has_its_claim_prepared_and_given_back(self):
        self.published()
        self.c.post(PODS, pod("short", "exit=0 after=6s"))
        held = self.held("short")
        assert len(held) == 1 and held[0][0] == "claim:device" and held[0][1].startswith(f"{DRIVER}/"), held
        assert self.prepared() == 1, os.listdir(self.cdi)
        assert [(list(c["DriverState"]), len(c["PodUIDs"])) for c in self.noted()] == [([DRIVER], 1)], self.noted()
        self.status("short", "Succeeded")
        assert self.prepared() == 0, os.listdir(self.cdi)
        assert self.noted() == [], self.noted()
        print("a claim is prepared, and given back at the pod's end: ok", flush=True)

    def health_of_devices_is_told(self):
        """The driver has the service, and knows of no device's health unless its own tests set it."""
        self.c.post(PODS, pod("long"))
        assert [h for _, _, h in self.held("long")] == ["Unknown"], self.held("long")
        with open(self.c.path("driver.log")) as log:
            assert "sending health update" in log.read(), "the stream of health is open"
        print("the driver is asked for the health of devices: ok", flush=True)

    def an_agent_that_starts_again(self):
        before = {s["metadata"]["uid"] for s in self.slices()}
        assert self.agent.stop() == 0, self.agent.tail()
        assert len(self.noted()) == 1, self.noted()
        self.agent.start()
        wait_for("slices made anew", lambda: self.slices() and not before & {s["metadata"]["uid"] for s in self.slices()}, 60)
        self.published()
        self.status("long", "Running")
        self.delete("long")
        self.gone("long")
        assert self.prepared() == 0 and self.noted() == [], (os.listdir(self.cdi), self.noted())
        print("a claim that an earlier agent had prepared is given back: ok", flush=True)

    def a_driver_that_dies(self):
        self.c.post(PODS, pod("stuck"))
        self.status("stuck", "Running")
        self.driver.stop(signal.SIGKILL)
        died = time.monotonic()
        self.delete("stuck")
        wait_for("slices gone", lambda: not self.slices(), 60)
        assert time.monotonic() - died > 25, "a driver has 30 s to come back"
        assert self.c.get(f"{PODS}/stuck") is not None, "a pod whose claim cannot be given back does not end"
        self.c.post(PODS, pod("waits"))
        self.driver.start()
        self.published()
        self.gone("stuck")
        self.status("waits", "Running")
        self.delete("waits")
        self.gone("waits")
        # This driver keeps what it has prepared in memory: it finds nothing to remove for the claim of before its death.
        assert self.prepared() == 1 and self.noted() == [], (os.listdir(self.cdi), self.noted())
        print("a driver that dies: ok", flush=True)

    def a_driver_that_ends(self):
        """It removes its sockets; a pod that is bound by hand to its claim is told."""
        self.c.post(RESOURCE + "/namespaces/default/resourceclaims", {"metadata": {"name": "kept"}, "spec": self.template()})
        self.c.post(PODS, pod("first", claim="kept"))
        self.status("first", "Running")
        assert self.driver.stop() == 0, self.driver.tail()
        self.c.post(PODS, {**pod("second", claim="kept"), "spec": {**pod("second", claim="kept")["spec"], "nodeName": "n1"}})
        text = f"Failed to prepare dynamic resources: prepare dynamic resources: DRA driver {DRIVER} is not registered"
        wait_for(f"event of the pod; {self.events('second')}", lambda: f"FailedPrepareDynamicResources: {text}" in self.events("second"), 90)
        self.driver.start()
        for name in ("first", "second"):
            self.delete(name)
        for name in ("first", "second"):
            self.gone(name)
        assert self.noted() == [], self.noted()
        print("a driver that ends: ok", flush=True)

    @staticmethod
    def template():
        return {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "test"}}]}}

    def run(self):
        self.c.post(RESOURCE + "/deviceclasses", {"metadata": {"name": "test"}, "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]}})
        self.c.post(RESOURCE + "/namespaces/default/resourceclaimtemplates", {"metadata": {"name": "one"}, "spec": {"spec": self.template()}})
        self.a_pod_has_its_claim_prepared_and_given_back()
        self.health_of_devices_is_told()
        self.an_agent_that_starts_again()
        self.a_driver_that_dies()
        self.a_driver_that_ends()


def main():
    missing = [n for n in ("test-driver", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "etcd") if not program(n)]
    if missing:
        print(f"skipped: {', '.join(missing)} not found (scripts/setup --real)", flush=True)
        sys.exit(1 if os.environ.get("GHOSTFLEET_REAL_BIN") else SKIPPED)
    with Cluster() as c:
        Test(c, sys.argv[1]).run()


if __name__ == "__main__":
    main()
