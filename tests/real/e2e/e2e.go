// Package e2e pins what scripts/conformance runs: Kubernetes' own end-to-end suite (go test -c k8s.io/kubernetes/test/e2e) and
// the ginkgo that spreads it over processes. A module of its own, so that a change here builds none of the other real programs anew; its
// requirements are those of tests/real, so that most packages are compiled already.
package e2e

import _ "k8s.io/kubernetes/test/e2e"
