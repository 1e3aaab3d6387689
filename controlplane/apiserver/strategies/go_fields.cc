#include "controlplane/apiserver/strategies/go_fields.h"

namespace ghostfleet::controlplane {

const std::string_view kGoFields = R"go(
AWSElasticBlockStoreVolumeSource VolumeID::s FSType:fsType:s Partition::i ReadOnly::b
Affinity NodeAffinity::*SNodeAffinity PodAffinity::*SPodAffinity PodAntiAffinity::*SPodAntiAffinity
AppArmorProfile Type::s LocalhostProfile::*s
AzureDiskVolumeSource DiskName::s DataDiskURI:diskURI:s CachingMode::*s FSType:fsType:*s ReadOnly::*b Kind::*s
AzureFileVolumeSource SecretName::s ShareName::s ReadOnly::b
CSIVolumeSource Driver::s ReadOnly::*b FSType:fsType:*s VolumeAttributes::{s
  NodePublishSecretRef::*SLocalObjectReference
Capabilities Add::[s Drop::[s
CephFSVolumeSource Monitors::[s Path::s User::s SecretFile::s SecretRef::*SLocalObjectReference ReadOnly::b
CinderVolumeSource VolumeID::s FSType:fsType:s ReadOnly::b SecretRef::*SLocalObjectReference
ClusterTrustBundleProjection Name::*s SignerName::*s LabelSelector::*m Optional::*b Path::s
ConfigMapEnvSource Name::s Optional::*b
ConfigMapKeySelector Name::s Key::s Optional::*b
ConfigMapProjection Name::s Items::[SKeyToPath Optional::*b
ConfigMapVolumeSource Name::s Items::[SKeyToPath DefaultMode::*i Optional::*b
Container Name::s Image::s Command::[s Args::[s WorkingDir::s Ports::[SContainerPort EnvFrom::[SEnvFromSource
  Env::[SEnvVar Resources::SResourceRequirements ResizePolicy::[SContainerResizePolicy RestartPolicy::*s
  RestartPolicyRules::[SContainerRestartRule VolumeMounts::[SVolumeMount VolumeDevices::[SVolumeDevice
  LivenessProbe::*SProbe ReadinessProbe::*SProbe StartupProbe::*SProbe Lifecycle::*SLifecycle
  TerminationMessagePath::s TerminationMessagePolicy::s ImagePullPolicy::s SecurityContext::*SSecurityContext
  Stdin::b StdinOnce::b TTY:tty:b
ContainerPort Name::s HostPort::i ContainerPort::i Protocol::s HostIP::s
ContainerResizePolicy ResourceName::s RestartPolicy::s
ContainerRestartRule Action::s ExitCodes::*SContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes Operator::s Values::[i
DownwardAPIProjection Items::[SDownwardAPIVolumeFile
DownwardAPIVolumeFile Path::s FieldRef::*SObjectFieldSelector ResourceFieldRef::*SResourceFieldSelector
  Mode::*i
DownwardAPIVolumeSource Items::[SDownwardAPIVolumeFile DefaultMode::*i
EmptyDirVolumeSource Medium::s SizeLimit::*q
EnvFromSource Prefix::s ConfigMapRef::*SConfigMapEnvSource SecretRef::*SSecretEnvSource
EnvVar Name::s Value::s ValueFrom::*SEnvVarSource
EnvVarSource FieldRef::*SObjectFieldSelector ResourceFieldRef::*SResourceFieldSelector
  ConfigMapKeyRef::*SConfigMapKeySelector SecretKeyRef::*SSecretKeySelector FileKeyRef::*SFileKeySelector
EphemeralContainer Name::s Image::s Command::[s Args::[s WorkingDir::s Ports::[SContainerPort
  EnvFrom::[SEnvFromSource Env::[SEnvVar Resources::SResourceRequirements
  ResizePolicy::[SContainerResizePolicy RestartPolicy::*s RestartPolicyRules::[SContainerRestartRule
  VolumeMounts::[SVolumeMount VolumeDevices::[SVolumeDevice LivenessProbe::*SProbe ReadinessProbe::*SProbe
  StartupProbe::*SProbe Lifecycle::*SLifecycle TerminationMessagePath::s TerminationMessagePolicy::s
  ImagePullPolicy::s SecurityContext::*SSecurityContext Stdin::b StdinOnce::b TTY:tty:b TargetContainerName::s
EphemeralVolumeSource VolumeClaimTemplate::*SPersistentVolumeClaimTemplate
ExecAction Command::[s
FCVolumeSource TargetWWNs::[s Lun::*i FSType:fsType:s ReadOnly::b WWIDs:wwids:[s
FileKeySelector VolumeName::s Path::s Key::s Optional::*b
FlexVolumeSource Driver::s FSType:fsType:s SecretRef::*SLocalObjectReference ReadOnly::b Options::{s
FlockerVolumeSource DatasetName::s DatasetUUID::s
GCEPersistentDiskVolumeSource PDName:pdName:s FSType:fsType:s Partition::i ReadOnly::b
GRPCAction Port::i Service::*s
GitRepoVolumeSource Repository::s Revision::s Directory::s
GlusterfsVolumeSource EndpointsName:endpoints:s Path::s ReadOnly::b
HTTPGetAction Path::s Port::x Host::s Scheme::s HTTPHeaders:httpHeaders:[SHTTPHeader
HTTPHeader Name::s Value::s
HostAlias IP:ip:s Hostnames::[s
HostPathVolumeSource Path::s Type::*s
ISCSIVolumeSource TargetPortal::s IQN:iqn:s Lun::i ISCSIInterface:iscsiInterface:s FSType:fsType:s ReadOnly::b
  Portals::[s DiscoveryCHAPAuth:chapAuthDiscovery:b SessionCHAPAuth:chapAuthSession:b
  SecretRef::*SLocalObjectReference InitiatorName::*s
ImageVolumeSource Reference::s PullPolicy::s
KeyToPath Key::s Path::s Mode::*i
Lifecycle PostStart::*SLifecycleHandler PreStop::*SLifecycleHandler StopSignal::*s
LifecycleHandler Exec::*SExecAction HTTPGet:httpGet:*SHTTPGetAction TCPSocket:tcpSocket:*STCPSocketAction
  Sleep::*SSleepAction
LocalObjectReference Name::s
NFSVolumeSource Server::s Path::s ReadOnly::b
NodeAffinity RequiredDuringSchedulingIgnoredDuringExecution::*SNodeSelector
  PreferredDuringSchedulingIgnoredDuringExecution::[SPreferredSchedulingTerm
NodeSelector NodeSelectorTerms::[SNodeSelectorTerm
NodeSelectorRequirement Key::s Operator::s Values::[s
NodeSelectorTerm MatchExpressions::[SNodeSelectorRequirement MatchFields::[SNodeSelectorRequirement
ObjectFieldSelector APIVersion:apiVersion:s FieldPath::s
PersistentVolumeClaimSpec AccessModes::[s Selector::*m Resources::SVolumeResourceRequirements VolumeName::s
  StorageClassName::*s VolumeMode::*s DataSource::*STypedLocalObjectReference
  DataSourceRef::*STypedObjectReference VolumeAttributesClassName::*s
PersistentVolumeClaimTemplate ObjectMeta:metadata:M Spec::SPersistentVolumeClaimSpec
PersistentVolumeClaimVolumeSource ClaimName::s ReadOnly::b
PhotonPersistentDiskVolumeSource PdID::s FSType:fsType:s
PodAffinity RequiredDuringSchedulingIgnoredDuringExecution::[SPodAffinityTerm
  PreferredDuringSchedulingIgnoredDuringExecution::[SWeightedPodAffinityTerm
PodAffinityTerm LabelSelector::*m Namespaces::[s TopologyKey::s NamespaceSelector::*m MatchLabelKeys::[s
  MismatchLabelKeys::[s
PodAntiAffinity RequiredDuringSchedulingIgnoredDuringExecution::[SPodAffinityTerm
  PreferredDuringSchedulingIgnoredDuringExecution::[SWeightedPodAffinityTerm
PodCertificateProjection SignerName::s KeyType::s MaxExpirationSeconds::*i CredentialBundlePath::s KeyPath::s
  CertificateChainPath::s UserAnnotations::{s
PodDNSConfig Nameservers::[s Searches::[s Options::[SPodDNSConfigOption
PodDNSConfigOption Name::s Value::*s
PodOS Name::s
PodReadinessGate ConditionType::s
PodResourceClaim Name::s ResourceClaimName::*s ResourceClaimTemplateName::*s
PodSchedulingGate Name::s
PodSchedulingGroup PodGroupName::*s
PodSecurityContext HostNetwork::b HostPID::b HostIPC::b ShareProcessNamespace::*b HostUsers::*b
  SELinuxOptions:seLinuxOptions:*SSELinuxOptions WindowsOptions::*SWindowsSecurityContextOptions RunAsUser::*i
  RunAsGroup::*i RunAsNonRoot::*b SupplementalGroups::[i SupplementalGroupsPolicy::*s FSGroup:fsGroup:*i
  FSGroupChangePolicy:fsGroupChangePolicy:*s Sysctls::[SSysctl SeccompProfile::*SSeccompProfile
  AppArmorProfile::*SAppArmorProfile SELinuxChangePolicy:seLinuxChangePolicy:*s
PodSpec Volumes::[SVolume InitContainers::[SContainer Containers::[SContainer
  EphemeralContainers::[SEphemeralContainer RestartPolicy::s TerminationGracePeriodSeconds::*i
  ActiveDeadlineSeconds::*i DNSPolicy:dnsPolicy:s NodeSelector::{s ServiceAccountName::s
  AutomountServiceAccountToken::*b NodeName::s SecurityContext::*SPodSecurityContext
  ImagePullSecrets::[SLocalObjectReference Hostname::s Subdomain::s SetHostnameAsFQDN::*b Affinity::*SAffinity
  SchedulerName::s Tolerations::[SToleration HostAliases::[SHostAlias PriorityClassName::s Priority::*i
  PreemptionPolicy::*s DNSConfig:dnsConfig:*SPodDNSConfig ReadinessGates::[SPodReadinessGate
  RuntimeClassName::*s Overhead::{q EnableServiceLinks::*b
  TopologySpreadConstraints::[STopologySpreadConstraint OS:os:*SPodOS SchedulingGates::[SPodSchedulingGate
  ResourceClaims::[SPodResourceClaim Resources::*SResourceRequirements HostnameOverride::*s
  SchedulingGroup::*SPodSchedulingGroup
PodTemplateSpec ObjectMeta:metadata:M Spec::SPodSpec
PortworxVolumeSource VolumeID::s FSType:fsType:s ReadOnly::b
PreferredSchedulingTerm Weight::i Preference::SNodeSelectorTerm
Probe Exec::*SExecAction HTTPGet:httpGet:*SHTTPGetAction TCPSocket:tcpSocket:*STCPSocketAction
  GRPC:grpc:*SGRPCAction InitialDelaySeconds::i TimeoutSeconds::i PeriodSeconds::i SuccessThreshold::i
  FailureThreshold::i TerminationGracePeriodSeconds::*i
ProjectedVolumeSource Sources::[SVolumeProjection DefaultMode::*i
QuobyteVolumeSource Registry::s Volume::s ReadOnly::b User::s Group::s Tenant::s
RBDVolumeSource CephMonitors:monitors:[s RBDImage:image:s FSType:fsType:s RBDPool:pool:s RadosUser:user:s
  Keyring::s SecretRef::*SLocalObjectReference ReadOnly::b
ResourceClaim Name::s Request::s
ResourceFieldSelector ContainerName::s Resource::s Divisor::q
ResourceRequirements Limits::{q Requests::{q Claims::[SResourceClaim
SELinuxOptions User::s Role::s Type::s Level::s
ScaleIOVolumeSource Gateway::s System::s SecretRef::*SLocalObjectReference SSLEnabled:sslEnabled:b
  ProtectionDomain::s StoragePool::s StorageMode::s VolumeName::s FSType:fsType:s ReadOnly::b
SeccompProfile Type::s LocalhostProfile::*s
SecretEnvSource Name::s Optional::*b
SecretKeySelector Name::s Key::s Optional::*b
SecretProjection Name::s Items::[SKeyToPath Optional::*b
SecretVolumeSource SecretName::s Items::[SKeyToPath DefaultMode::*i Optional::*b
SecurityContext Capabilities::*SCapabilities Privileged::*b SELinuxOptions:seLinuxOptions:*SSELinuxOptions
  WindowsOptions::*SWindowsSecurityContextOptions RunAsUser::*i RunAsGroup::*i RunAsNonRoot::*b
  ReadOnlyRootFilesystem::*b AllowPrivilegeEscalation::*b ProcMount::*s SeccompProfile::*SSeccompProfile
  AppArmorProfile::*SAppArmorProfile
ServiceAccountTokenProjection Audience::s ExpirationSeconds::i Path::s
SleepAction Seconds::i
StorageOSVolumeSource VolumeName::s VolumeNamespace::s FSType:fsType:s ReadOnly::b
  SecretRef::*SLocalObjectReference
Sysctl Name::s Value::s
TCPSocketAction Port::x Host::s
Toleration Key::s Operator::s Value::s Effect::s TolerationSeconds::*i
TopologySpreadConstraint MaxSkew::i TopologyKey::s WhenUnsatisfiable::s LabelSelector::*m MinDomains::*i
  NodeAffinityPolicy::*s NodeTaintsPolicy::*s MatchLabelKeys::[s
TypedLocalObjectReference APIGroup:apiGroup:*s Kind::s Name::s
TypedObjectReference APIGroup:apiGroup:*s Kind::s Name::s Namespace::*s
Volume Name::s HostPath::*SHostPathVolumeSource EmptyDir::*SEmptyDirVolumeSource
  GCEPersistentDisk:gcePersistentDisk:*SGCEPersistentDiskVolumeSource
  AWSElasticBlockStore:awsElasticBlockStore:*SAWSElasticBlockStoreVolumeSource GitRepo::*SGitRepoVolumeSource
  Secret::*SSecretVolumeSource NFS:nfs:*SNFSVolumeSource ISCSI:iscsi:*SISCSIVolumeSource
  Glusterfs::*SGlusterfsVolumeSource PersistentVolumeClaim::*SPersistentVolumeClaimVolumeSource
  RBD:rbd:*SRBDVolumeSource Quobyte::*SQuobyteVolumeSource FlexVolume::*SFlexVolumeSource
  Cinder::*SCinderVolumeSource CephFS:cephfs:*SCephFSVolumeSource Flocker::*SFlockerVolumeSource
  DownwardAPI::*SDownwardAPIVolumeSource FC:fc:*SFCVolumeSource AzureFile::*SAzureFileVolumeSource
  ConfigMap::*SConfigMapVolumeSource VsphereVolume::*SVsphereVirtualDiskVolumeSource
  AzureDisk::*SAzureDiskVolumeSource PhotonPersistentDisk::*SPhotonPersistentDiskVolumeSource
  Projected::*SProjectedVolumeSource PortworxVolume::*SPortworxVolumeSource ScaleIO::*SScaleIOVolumeSource
  StorageOS:storageos:*SStorageOSVolumeSource CSI:csi:*SCSIVolumeSource Ephemeral::*SEphemeralVolumeSource
  Image::*SImageVolumeSource
VolumeDevice Name::s DevicePath::s
VolumeMount Name::s ReadOnly::b RecursiveReadOnly::*s MountPath::s SubPath::s MountPropagation::*s
  SubPathExpr::s
VolumeProjection Secret::*SSecretProjection DownwardAPI::*SDownwardAPIProjection
  ConfigMap::*SConfigMapProjection ServiceAccountToken::*SServiceAccountTokenProjection
  ClusterTrustBundle::*SClusterTrustBundleProjection PodCertificate::*SPodCertificateProjection
VolumeResourceRequirements Limits::{q Requests::{q
VsphereVirtualDiskVolumeSource VolumePath::s FSType:fsType:s StoragePolicyName::s StoragePolicyID::s
WeightedPodAffinityTerm Weight::i PodAffinityTerm::SPodAffinityTerm
WindowsSecurityContextOptions GMSACredentialSpecName:gmsaCredentialSpecName:*s
  GMSACredentialSpec:gmsaCredentialSpec:*s RunAsUserName::*s HostProcess::*b
)go";

}  // namespace ghostfleet::controlplane
