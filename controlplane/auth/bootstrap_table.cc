// The roles and bindings every cluster begins with, as a table. Names, verbs and resources are those of
// Kubernetes 1.36.
#include "controlplane/auth/bootstrap_table.h"

namespace ghostfleet::controlplane {

// clang-format off
const char* const kBootstrapTable = R"(
clusterrole - admin from:admin
clusterrole - cluster-admin
 * * *
 * url *
clusterrole - edit label:admin from:edit
clusterrole - system:aggregate-to-admin label:admin
 create authorization.k8s.io localsubjectaccessreviews
 create,delete,deletecollection,get,list,patch,update,watch rbac.authorization.k8s.io rolebindings,roles
clusterrole - system:aggregate-to-edit label:edit
 get,list,watch core pods/attach,pods/exec,pods/portforward,pods/proxy,secrets,services/proxy
 impersonate core serviceaccounts
 create,delete,deletecollection,patch,update core pods,pods/attach,pods/exec,pods/portforward,pods/proxy
 create core pods/eviction
 create,delete,deletecollection,patch,update core configmaps,persistentvolumeclaims,replicationcontrollers,replicationcontrollers/scale,secrets,serviceaccounts,services,services/proxy
 create core serviceaccounts/token
 create,delete,deletecollection,patch,update core,events.k8s.io events
 create,delete,deletecollection,patch,update apps daemonsets,deployments,deployments/rollback,deployments/scale,replicasets,replicasets/scale,statefulsets,statefulsets/scale
 create,delete,deletecollection,patch,update autoscaling horizontalpodautoscalers
 create,delete,deletecollection,patch,update batch cronjobs,jobs
 create,delete,deletecollection,patch,update extensions daemonsets,deployments,deployments/rollback,deployments/scale,ingresses,networkpolicies,replicasets,replicasets/scale,replicationcontrollers/scale
 create,delete,deletecollection,patch,update policy poddisruptionbudgets
 create,delete,deletecollection,patch,update networking.k8s.io ingresses,networkpolicies
 create,delete,deletecollection,get,list,patch,update,watch coordination.k8s.io leases
 create,delete,deletecollection,patch,update resource.k8s.io resourceclaims,resourceclaimtemplates
clusterrole - system:aggregate-to-view label:view
 get,list,watch core configmaps,endpoints,persistentvolumeclaims,persistentvolumeclaims/status,pods,replicationcontrollers,replicationcontrollers/scale,serviceaccounts,services,services/status
 get,list,watch core bindings,limitranges,namespaces/status,pods/log,pods/status,replicationcontrollers/status,resourcequotas,resourcequotas/status
 get,list,watch core namespaces
 get,list,watch core,events.k8s.io events
 get,list,watch discovery.k8s.io endpointslices
 get,list,watch apps controllerrevisions,daemonsets,daemonsets/status,deployments,deployments/scale,deployments/status,replicasets,replicasets/scale,replicasets/status,statefulsets,statefulsets/scale,statefulsets/status
 get,list,watch autoscaling horizontalpodautoscalers,horizontalpodautoscalers/status
 get,list,watch batch cronjobs,cronjobs/status,jobs,jobs/status
 get,list,watch extensions daemonsets,daemonsets/status,deployments,deployments/scale,deployments/status,ingresses,ingresses/status,networkpolicies,replicasets,replicasets/scale,replicasets/status,replicationcontrollers/scale
 get,list,watch policy poddisruptionbudgets,poddisruptionbudgets/status
 get,list,watch networking.k8s.io ingresses,ingresses/status,networkpolicies
 get,list,watch resource.k8s.io resourceclaims,resourceclaims/status,resourceclaimtemplates
clusterrole - system:auth-delegator
 create authentication.k8s.io tokenreviews
 create authorization.k8s.io subjectaccessreviews
clusterrole - system:basic-user
 create authorization.k8s.io selfsubjectaccessreviews,selfsubjectrulesreviews
 create authentication.k8s.io selfsubjectreviews
clusterrole - system:certificates.k8s.io:certificatesigningrequests:nodeclient
 create certificates.k8s.io certificatesigningrequests/nodeclient
clusterrole - system:certificates.k8s.io:certificatesigningrequests:selfnodeclient
 create certificates.k8s.io certificatesigningrequests/selfnodeclient
clusterrole - system:certificates.k8s.io:kube-apiserver-client-approver
 approve certificates.k8s.io signers kubernetes.io/kube-apiserver-client
clusterrole - system:certificates.k8s.io:kube-apiserver-client-kubelet-approver
 approve certificates.k8s.io signers kubernetes.io/kube-apiserver-client-kubelet
clusterrole - system:certificates.k8s.io:kubelet-serving-approver
 approve certificates.k8s.io signers kubernetes.io/kubelet-serving
clusterrole - system:certificates.k8s.io:legacy-unknown-approver
 approve certificates.k8s.io signers kubernetes.io/legacy-unknown
clusterrole - system:controller:attachdetach-controller
 list,watch core persistentvolumeclaims,persistentvolumes
 get,list,watch core nodes
 patch,update core nodes/status
 list,watch core pods
 create,patch,update core,events.k8s.io events
 create,delete,get,list,watch storage.k8s.io volumeattachments
 get,list,watch storage.k8s.io csidrivers
 get,list,watch storage.k8s.io csinodes
clusterrole - system:controller:certificate-controller
 delete,get,list,watch certificates.k8s.io certificatesigningrequests
 update certificates.k8s.io certificatesigningrequests/approval,certificatesigningrequests/status
 approve certificates.k8s.io signers kubernetes.io/kube-apiserver-client-kubelet
 sign certificates.k8s.io signers kubernetes.io/kube-apiserver-client,kubernetes.io/kube-apiserver-client-kubelet,kubernetes.io/kubelet-serving,kubernetes.io/legacy-unknown
 create authorization.k8s.io subjectaccessreviews
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:clusterrole-aggregation-controller
 escalate,get,list,patch,update,watch rbac.authorization.k8s.io clusterroles
clusterrole - system:controller:cronjob-controller
 get,list,update,watch batch cronjobs
 create,delete,get,list,patch,update,watch batch jobs
 update batch cronjobs/status
 update batch cronjobs/finalizers
 delete,list,watch core pods
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:daemon-set-controller
 get,list,watch apps,extensions daemonsets
 update apps,extensions daemonsets/status
 update apps,extensions daemonsets/finalizers
 list,watch core nodes
 create,delete,list,patch,watch core pods
 create core pods/binding
 create,delete,get,list,patch,update,watch apps controllerrevisions
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:deployment-controller
 get,list,update,watch apps,extensions deployments
 update apps,extensions deployments/status
 update apps,extensions deployments/finalizers
 create,delete,get,list,patch,update,watch apps,extensions replicasets
 get,list,update,watch core pods
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:device-taint-eviction-controller
 delete,get,list,watch core pods
 patch,update core pods/status
 get,list,watch resource.k8s.io resourceclaims
 get,list,watch resource.k8s.io resourceslices
 get,list,watch resource.k8s.io deviceclasses
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:disruption-controller
 get,list,watch apps,extensions deployments
 get,list,watch apps,extensions replicasets
 get,list,watch core replicationcontrollers
 get,list,watch policy poddisruptionbudgets
 get,list,watch apps statefulsets
 update policy poddisruptionbudgets/status
 patch,update core pods/status
 get * */scale
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:endpoint-controller
 get,list,watch core pods,services
 create,delete,get,list,update,watch core endpoints
 create core endpoints/restricted
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:endpointslice-controller
 get,list,watch core nodes,pods,services
 update core services/finalizers
 create,delete,get,list,update,watch discovery.k8s.io endpointslices
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:endpointslicemirroring-controller
 get,list,watch core endpoints,services
 update core services/finalizers
 update core endpoints/finalizers
 create,delete,get,list,update,watch discovery.k8s.io endpointslices
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:ephemeral-volume-controller
 get,list,watch core pods
 update core pods/finalizers
 create,get,list,watch core persistentvolumeclaims
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:expand-controller
 get,list,patch,update,watch core persistentvolumes
 patch,update core persistentvolumeclaims/status
 get,list,watch core persistentvolumeclaims
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:generic-garbage-collector
 delete,get,list,patch,update,watch * *
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:horizontal-pod-autoscaler
 get,list,watch autoscaling horizontalpodautoscalers
 update autoscaling horizontalpodautoscalers/status
 get,update * */scale
 list,watch core pods
 list,watch metrics.k8s.io pods
 get,list,watch custom.metrics.k8s.io *
 get,list,watch external.metrics.k8s.io *
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:job-controller
 get,list,patch,update,watch batch jobs
 update batch jobs/status
 update batch jobs/finalizers
 create,delete,list,patch,watch core pods
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:legacy-service-account-token-cleaner
 get core configmaps kube-apiserver-legacy-service-account-token-tracking
 delete,patch core secrets
clusterrole - system:controller:namespace-controller
 delete,get,list,watch core namespaces
 update core namespaces/finalize,namespaces/status
 delete,deletecollection,get,list,watch * *
clusterrole - system:controller:node-controller
 delete,get,list,patch,update,watch core nodes
 patch,update core nodes/status
 patch,update core pods/status
 delete,get,list,watch core pods
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:persistent-volume-binder
 create,delete,get,list,update,watch core persistentvolumes
 update core persistentvolumes/status
 get,list,update,watch core persistentvolumeclaims
 update core persistentvolumeclaims/status
 create,delete,get,list,watch core pods
 get,list,watch storage.k8s.io storageclasses
 list,watch core nodes
 create,patch,update core,events.k8s.io events
 watch core events
clusterrole - system:controller:pod-garbage-collector
 delete,list,watch core pods
 get,list,watch core nodes
 patch core pods/status
clusterrole - system:controller:pv-protection-controller
 get,list,update,watch core persistentvolumes
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:pvc-protection-controller
 get,list,update,watch core persistentvolumeclaims
 update core persistentvolumeclaims/status
 get,list,watch core pods
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:replicaset-controller
 get,list,update,watch apps,extensions replicasets
 update apps,extensions replicasets/status
 update apps,extensions replicasets/finalizers
 create,delete,list,patch,watch core pods
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:replication-controller
 get,list,update,watch core replicationcontrollers
 update core replicationcontrollers/status
 update core replicationcontrollers/finalizers
 create,delete,list,patch,watch core pods
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:resource-claim-controller
 get,list,watch core pods
 update core pods/finalizers
 create,delete,get,list,watch resource.k8s.io resourceclaims
 patch,update resource.k8s.io resourceclaims,resourceclaims/status
 patch,update core pods/status
 create,patch,update core,events.k8s.io events
 patch,update resource.k8s.io resourceclaims/binding
clusterrole - system:controller:resourcequota-controller
 list,watch * *
 update core resourcequotas/status
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:root-ca-cert-publisher
 create,update core configmaps
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:route-controller
 list,watch core nodes
 patch core nodes/status
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:selinux-warning-controller
 create,patch,update core,events.k8s.io events
 get,list,watch core persistentvolumes
 get,list,watch core persistentvolumeclaims
 get,list,watch core pods
 get,list,watch storage.k8s.io csidrivers
clusterrole - system:controller:service-account-controller
 create core serviceaccounts
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:service-cidrs-controller
 get,list,patch,update,watch networking.k8s.io servicecidrs
 patch,update networking.k8s.io servicecidrs/finalizers
 patch,update networking.k8s.io servicecidrs/status
 get,list,watch networking.k8s.io ipaddresses
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:service-controller
 get,list,watch core services
 patch,update core services/status
 list,watch core nodes
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:statefulset-controller
 list,watch core pods
 get,list,watch apps statefulsets
 update apps statefulsets/status
 update apps statefulsets/finalizers
 create,delete,get,patch,update core pods
 create,delete,get,list,patch,update,watch apps controllerrevisions
 create,get,list,watch core persistentvolumeclaims
 delete,update core persistentvolumeclaims
 update core pods/finalizers
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:ttl-after-finished-controller
 delete,get,list,watch batch jobs
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:ttl-controller
 list,patch,update,watch core nodes
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:validatingadmissionpolicy-status-controller
 get,list,watch admissionregistration.k8s.io validatingadmissionpolicies
 get,patch,update admissionregistration.k8s.io validatingadmissionpolicies/status
 create,patch,update core,events.k8s.io events
clusterrole - system:controller:volumeattributesclass-protection-controller
 get,list,watch core persistentvolumeclaims
 get,list,watch core persistentvolumes
 get,list,update,watch storage.k8s.io volumeattributesclasses
 create,patch,update core,events.k8s.io events
clusterrole - system:discovery
 get url /api,/api/*,/apis,/apis/*,/healthz,/livez,/openapi,/openapi/*,/readyz,/version,/version/
clusterrole - system:heapster
 get,list,watch core events,namespaces,nodes,pods
 get,list,watch extensions deployments
clusterrole - system:kube-aggregator
 get,list,watch core endpoints,services
clusterrole - system:kube-controller-manager
 create,patch,update core,events.k8s.io events
 create coordination.k8s.io leases
 get,update coordination.k8s.io leases kube-controller-manager
 create core secrets,serviceaccounts
 delete core secrets
 get core configmaps,namespaces,secrets,serviceaccounts
 update core secrets,serviceaccounts
 create authentication.k8s.io tokenreviews
 create authorization.k8s.io subjectaccessreviews
 list,watch * *
 create core serviceaccounts/token
clusterrole - system:kube-dns
 list,watch core endpoints,services
clusterrole - system:kube-scheduler
 create,patch,update core,events.k8s.io events
 create coordination.k8s.io leases
 get,list,update,watch coordination.k8s.io leases kube-scheduler
 create,delete,deletecollection,get,list,patch,update,watch coordination.k8s.io leasecandidates
 get,list,watch core nodes
 delete,get,list,watch core pods
 create core bindings,pods/binding
 patch,update core pods/status
 get,list,watch core replicationcontrollers,services
 get,list,watch apps,extensions replicasets
 get,list,watch apps statefulsets
 get,list,watch policy poddisruptionbudgets
 get,list,watch core persistentvolumeclaims,persistentvolumes
 create authentication.k8s.io tokenreviews
 create authorization.k8s.io subjectaccessreviews
 get,list,watch storage.k8s.io csinodes
 get,list,watch storage.k8s.io volumeattachments
 get,list,watch core namespaces
 get,list,watch storage.k8s.io csidrivers
 get,list,watch storage.k8s.io csistoragecapacities
 get,list,watch resource.k8s.io deviceclasses
 get,list,patch,update,watch resource.k8s.io resourceclaims
 get,list,patch,update,watch resource.k8s.io resourceclaims/status
 update core pods/finalizers
 get,list,watch resource.k8s.io resourceslices
 create,delete resource.k8s.io resourceclaims
 patch,update resource.k8s.io resourceclaims/binding
clusterrole - system:kubelet-api-admin
 get,list,watch core nodes
 proxy core nodes
 * core nodes/log,nodes/metrics,nodes/proxy,nodes/stats
 * core nodes/configz,nodes/healthz,nodes/pods
clusterrole - system:monitoring
 get url /flagz,/healthz,/healthz/*,/livez,/livez/*,/metrics,/metrics/slis,/readyz,/readyz/*,/statusz
 get core nodes/metrics
clusterrole - system:node
 create authentication.k8s.io tokenreviews
 create authorization.k8s.io localsubjectaccessreviews,subjectaccessreviews
 get,list,watch core services
 create,get,list,watch core nodes
 patch,update core nodes/status
 patch,update core nodes
 create,patch,update core,events.k8s.io events
 get,list,watch core pods
 create,delete core pods
 patch,update core pods/status
 create core pods/eviction
 get,list,watch core configmaps,secrets
 get core persistentvolumeclaims,persistentvolumes
 get core endpoints
 create,get,list,watch certificates.k8s.io certificatesigningrequests
 create,delete,get,patch,update coordination.k8s.io leases
 get storage.k8s.io volumeattachments
 create core serviceaccounts/token
 get,patch,update core persistentvolumeclaims/status
 get,list,watch storage.k8s.io csidrivers
 create,delete,get,patch,update storage.k8s.io csinodes
 get,list,watch node.k8s.io runtimeclasses
 get resource.k8s.io resourceclaims
 deletecollection resource.k8s.io resourceslices
 get core serviceaccounts
clusterrole - system:node-bootstrapper
 create,get,list,watch certificates.k8s.io certificatesigningrequests
clusterrole - system:node-problem-detector
 get core nodes
 patch core nodes/status
 create,patch,update core,events.k8s.io events
clusterrole - system:node-proxier
 list,watch core endpoints,services
 get,list,watch core nodes
 create,patch,update core,events.k8s.io events
 list,watch networking.k8s.io servicecidrs
 list,watch discovery.k8s.io endpointslices
clusterrole - system:persistent-volume-provisioner
 create,delete,get,list,watch core persistentvolumes
 get,list,update,watch core persistentvolumeclaims
 get,list,watch storage.k8s.io storageclasses
 watch core events
 create,patch,update core,events.k8s.io events
clusterrole - system:public-info-viewer
 get url /healthz,/livez,/readyz,/version,/version/
clusterrole - system:service-account-issuer-discovery
 get url /.well-known/openid-configuration,/.well-known/openid-configuration/,/openid/v1/jwks,/openid/v1/jwks/
clusterrole - system:volume-scheduler
 get,list,patch,update,watch core persistentvolumes
 get,list,watch storage.k8s.io storageclasses
 get,list,patch,update,watch core persistentvolumeclaims
clusterrole - view label:edit from:view
role kube-public system:controller:bootstrap-signer
 get,list,watch core configmaps
 update core configmaps cluster-info
 create,patch,update core,events.k8s.io events
role kube-system extension-apiserver-authentication-reader
 get,list,watch core configmaps extension-apiserver-authentication
role kube-system system::leader-locking-kube-controller-manager
 create,get,list,update,watch coordination.k8s.io leases
 create,get,list,update,watch coordination.k8s.io leasecandidates
role kube-system system::leader-locking-kube-scheduler
 create,get,list,update,watch coordination.k8s.io leases
 create,get,list,update,watch coordination.k8s.io leasecandidates
role kube-system system:controller:bootstrap-signer
 get,list,watch core secrets
role kube-system system:controller:cloud-provider
 create,get,list,watch core configmaps
role kube-system system:controller:token-cleaner
 delete,get,list,watch core secrets
 create,patch,update core,events.k8s.io events
clusterrolebinding - cluster-admin clusterrole=cluster-admin group=system:masters
clusterrolebinding - system:basic-user clusterrole=system:basic-user group=system:authenticated
clusterrolebinding - system:controller:attachdetach-controller clusterrole=system:controller:attachdetach-controller serviceaccount=kube-system/attachdetach-controller
clusterrolebinding - system:controller:certificate-controller clusterrole=system:controller:certificate-controller serviceaccount=kube-system/certificate-controller
clusterrolebinding - system:controller:clusterrole-aggregation-controller clusterrole=system:controller:clusterrole-aggregation-controller serviceaccount=kube-system/clusterrole-aggregation-controller
clusterrolebinding - system:controller:cronjob-controller clusterrole=system:controller:cronjob-controller serviceaccount=kube-system/cronjob-controller
clusterrolebinding - system:controller:daemon-set-controller clusterrole=system:controller:daemon-set-controller serviceaccount=kube-system/daemon-set-controller
clusterrolebinding - system:controller:deployment-controller clusterrole=system:controller:deployment-controller serviceaccount=kube-system/deployment-controller
clusterrolebinding - system:controller:device-taint-eviction-controller clusterrole=system:controller:device-taint-eviction-controller serviceaccount=kube-system/device-taint-eviction-controller
clusterrolebinding - system:controller:disruption-controller clusterrole=system:controller:disruption-controller serviceaccount=kube-system/disruption-controller
clusterrolebinding - system:controller:endpoint-controller clusterrole=system:controller:endpoint-controller serviceaccount=kube-system/endpoint-controller
clusterrolebinding - system:controller:endpointslice-controller clusterrole=system:controller:endpointslice-controller serviceaccount=kube-system/endpointslice-controller
clusterrolebinding - system:controller:endpointslicemirroring-controller clusterrole=system:controller:endpointslicemirroring-controller serviceaccount=kube-system/endpointslicemirroring-controller
clusterrolebinding - system:controller:ephemeral-volume-controller clusterrole=system:controller:ephemeral-volume-controller serviceaccount=kube-system/ephemeral-volume-controller
clusterrolebinding - system:controller:expand-controller clusterrole=system:controller:expand-controller serviceaccount=kube-system/expand-controller
clusterrolebinding - system:controller:generic-garbage-collector clusterrole=system:controller:generic-garbage-collector serviceaccount=kube-system/generic-garbage-collector
clusterrolebinding - system:controller:horizontal-pod-autoscaler clusterrole=system:controller:horizontal-pod-autoscaler serviceaccount=kube-system/horizontal-pod-autoscaler
clusterrolebinding - system:controller:job-controller clusterrole=system:controller:job-controller serviceaccount=kube-system/job-controller
clusterrolebinding - system:controller:legacy-service-account-token-cleaner clusterrole=system:controller:legacy-service-account-token-cleaner serviceaccount=kube-system/legacy-service-account-token-cleaner
clusterrolebinding - system:controller:namespace-controller clusterrole=system:controller:namespace-controller serviceaccount=kube-system/namespace-controller
clusterrolebinding - system:controller:node-controller clusterrole=system:controller:node-controller serviceaccount=kube-system/node-controller
clusterrolebinding - system:controller:persistent-volume-binder clusterrole=system:controller:persistent-volume-binder serviceaccount=kube-system/persistent-volume-binder
clusterrolebinding - system:controller:pod-garbage-collector clusterrole=system:controller:pod-garbage-collector serviceaccount=kube-system/pod-garbage-collector
clusterrolebinding - system:controller:pv-protection-controller clusterrole=system:controller:pv-protection-controller serviceaccount=kube-system/pv-protection-controller
clusterrolebinding - system:controller:pvc-protection-controller clusterrole=system:controller:pvc-protection-controller serviceaccount=kube-system/pvc-protection-controller
clusterrolebinding - system:controller:replicaset-controller clusterrole=system:controller:replicaset-controller serviceaccount=kube-system/replicaset-controller
clusterrolebinding - system:controller:replication-controller clusterrole=system:controller:replication-controller serviceaccount=kube-system/replication-controller
clusterrolebinding - system:controller:resource-claim-controller clusterrole=system:controller:resource-claim-controller serviceaccount=kube-system/resource-claim-controller
clusterrolebinding - system:controller:resourcequota-controller clusterrole=system:controller:resourcequota-controller serviceaccount=kube-system/resourcequota-controller
clusterrolebinding - system:controller:root-ca-cert-publisher clusterrole=system:controller:root-ca-cert-publisher serviceaccount=kube-system/root-ca-cert-publisher
clusterrolebinding - system:controller:route-controller clusterrole=system:controller:route-controller serviceaccount=kube-system/route-controller
clusterrolebinding - system:controller:selinux-warning-controller clusterrole=system:controller:selinux-warning-controller serviceaccount=kube-system/selinux-warning-controller
clusterrolebinding - system:controller:service-account-controller clusterrole=system:controller:service-account-controller serviceaccount=kube-system/service-account-controller
clusterrolebinding - system:controller:service-cidrs-controller clusterrole=system:controller:service-cidrs-controller serviceaccount=kube-system/service-cidrs-controller
clusterrolebinding - system:controller:service-controller clusterrole=system:controller:service-controller serviceaccount=kube-system/service-controller
clusterrolebinding - system:controller:statefulset-controller clusterrole=system:controller:statefulset-controller serviceaccount=kube-system/statefulset-controller
clusterrolebinding - system:controller:ttl-after-finished-controller clusterrole=system:controller:ttl-after-finished-controller serviceaccount=kube-system/ttl-after-finished-controller
clusterrolebinding - system:controller:ttl-controller clusterrole=system:controller:ttl-controller serviceaccount=kube-system/ttl-controller
clusterrolebinding - system:controller:validatingadmissionpolicy-status-controller clusterrole=system:controller:validatingadmissionpolicy-status-controller serviceaccount=kube-system/validatingadmissionpolicy-status-controller
clusterrolebinding - system:controller:volumeattributesclass-protection-controller clusterrole=system:controller:volumeattributesclass-protection-controller serviceaccount=kube-system/volumeattributesclass-protection-controller
clusterrolebinding - system:discovery clusterrole=system:discovery group=system:authenticated
clusterrolebinding - system:kube-controller-manager clusterrole=system:kube-controller-manager user=system:kube-controller-manager
clusterrolebinding - system:kube-dns clusterrole=system:kube-dns serviceaccount=kube-system/kube-dns
clusterrolebinding - system:kube-scheduler clusterrole=system:kube-scheduler user=system:kube-scheduler
clusterrolebinding - system:monitoring clusterrole=system:monitoring group=system:monitoring
clusterrolebinding - system:node clusterrole=system:node
clusterrolebinding - system:node-proxier clusterrole=system:node-proxier user=system:kube-proxy
clusterrolebinding - system:public-info-viewer clusterrole=system:public-info-viewer group=system:authenticated group=system:unauthenticated
clusterrolebinding - system:service-account-issuer-discovery clusterrole=system:service-account-issuer-discovery group=system:serviceaccounts
clusterrolebinding - system:volume-scheduler clusterrole=system:volume-scheduler user=system:kube-scheduler
clusterrolebinding - kubeadm:apiserver-kubelet-client clusterrole=system:kubelet-api-admin user=kube-apiserver-kubelet-client
clusterrolebinding - kubeadm:node-autoapprove-bootstrap clusterrole=system:certificates.k8s.io:certificatesigningrequests:nodeclient group=system:bootstrappers group=system:bootstrappers:kubeadm:default-node-token
clusterrolebinding - kubeadm:node-autoapprove-certificate-rotation clusterrole=system:certificates.k8s.io:certificatesigningrequests:selfnodeclient group=system:nodes
rolebinding kube-public system:controller:bootstrap-signer role=system:controller:bootstrap-signer serviceaccount=kube-system/bootstrap-signer
rolebinding kube-system system::extension-apiserver-authentication-reader role=extension-apiserver-authentication-reader user=system:kube-controller-manager user=system:kube-scheduler
rolebinding kube-system system::leader-locking-kube-controller-manager role=system::leader-locking-kube-controller-manager user=system:kube-controller-manager serviceaccount=kube-system/kube-controller-manager serviceaccount=kube-system/leader-election-controller
rolebinding kube-system system::leader-locking-kube-scheduler role=system::leader-locking-kube-scheduler user=system:kube-scheduler serviceaccount=kube-system/kube-scheduler
rolebinding kube-system system:controller:bootstrap-signer role=system:controller:bootstrap-signer serviceaccount=kube-system/bootstrap-signer
rolebinding kube-system system:controller:cloud-provider role=system:controller:cloud-provider serviceaccount=kube-system/cloud-provider
rolebinding kube-system system:controller:token-cleaner role=system:controller:token-cleaner serviceaccount=kube-system/token-cleaner
)";
// clang-format on

}  // namespace ghostfleet::controlplane
