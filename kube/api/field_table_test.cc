#include "kube/api/field_table.h"

#include <gtest/gtest.h>

#include <set>

namespace ghostfleet::kube {
namespace {

TEST(FieldTable, EveryTypeIsComplete) {
  ASSERT_GT(all_types().size(), 700u);
  for (const TypeInfo* type : all_types()) {
    std::set<std::string> names;
    for (const FieldInfo& f : type->fields) {
      const bool needs_message = f.kind == FieldKind::kMessage || f.kind >= FieldKind::kSchemaOrBool;
      EXPECT_EQ(f.message != nullptr, needs_message) << type->name << " " << f.json_name << " " << f.go_type;
    }
    for (size_t i = 0; i < type->flat.size(); ++i) {
      const std::string& name = type->flat[i].field->json_name;
      EXPECT_TRUE(names.insert(name).second) << type->name << " " << name;
      EXPECT_EQ(type->find_flat(name), static_cast<int>(i));
    }
    EXPECT_EQ(type->find("noSuchField"), nullptr);
    EXPECT_EQ(type->find(""), nullptr);
  }
}

TEST(FieldTable, KindsOfValues) {
  const TypeInfo* pod = find_type("core/v1.PodSpec");
  ASSERT_NE(pod, nullptr);
  EXPECT_EQ(pod->find("restartPolicy")->kind, FieldKind::kString);
  EXPECT_EQ(pod->find("hostNetwork")->kind, FieldKind::kBool);
  EXPECT_TRUE(pod->find("priority")->pointer);
  EXPECT_EQ(pod->find("priority")->kind, FieldKind::kInt32);
  const FieldInfo* containers = pod->find("containers");
  EXPECT_TRUE(containers->repeated);
  EXPECT_EQ(containers->message->name, "core/v1.Container");
  EXPECT_EQ(containers->merge_key, "name");
  EXPECT_EQ(containers->go_type, "[]v1.Container");
  EXPECT_EQ(containers->list_type, ListType::kMap);
  const FieldInfo* overhead = pod->find("overhead");
  EXPECT_TRUE(overhead->map);
  EXPECT_EQ(overhead->kind, FieldKind::kQuantity);
  EXPECT_EQ(overhead->go_type, "v1.ResourceList");
  EXPECT_EQ(find_type("core/v1.ContainerPort")->find("protocol")->go_type, "v1.Protocol");
  EXPECT_EQ(find_type("core/v1.HTTPGetAction")->find("port")->kind, FieldKind::kIntOrString);
  EXPECT_EQ(find_type("core/v1.Secret")->find("data")->kind, FieldKind::kBytes);
  EXPECT_TRUE(find_type("core/v1.Secret")->find("data")->map);
  EXPECT_EQ(find_type("meta/v1.ObjectMeta")->find("creationTimestamp")->kind, FieldKind::kTime);
  EXPECT_EQ(find_type("apps/v1.Deployment")->find("spec")->message->name, "apps/v1.DeploymentSpec");
  EXPECT_EQ(find_type("apps/v1.DeploymentSpec")->find("template")->message->name, "core/v1.PodTemplateSpec");
  EXPECT_TRUE(find_type("authentication.k8s.io/v1.UserInfo")->find("extra")->map_of_lists);
  EXPECT_TRUE(find_type("meta/v1.APIResource")->find("verbs")->wrapped_list);
  EXPECT_EQ(find_type("", "v1", "Pod")->name, "core/v1.Pod");
}

TEST(FieldTable, EmbeddedStructsAreDissolved) {
  const TypeInfo* probe = find_type("core/v1.Probe");
  const int i = probe->find_flat("httpGet");
  ASSERT_GE(i, 0);
  EXPECT_EQ(probe->flat[static_cast<size_t>(i)].go_path, "ProbeHandler.httpGet");
  ASSERT_EQ(probe->flat[static_cast<size_t>(i)].embedded.size(), 1u);
  EXPECT_EQ(probe->flat[static_cast<size_t>(i)].embedded[0]->proto_number, 1u);
  const TypeInfo* rules = find_type("admissionregistration.k8s.io/v1.NamedRuleWithOperations");
  ASSERT_GE(rules->find_flat("apiGroups"), 0);
  EXPECT_EQ(rules->flat[static_cast<size_t>(rules->find_flat("apiGroups"))].embedded.size(), 2u);
}

TEST(FieldTable, KindAndApiVersionWhereTheyBelong) {
  for (const char* with :
       {"core/v1.Pod", "core/v1.PodList", "meta/v1.DeleteOptions", "meta/v1.Status", "autoscaling/v1.Scale",
        "core/v1.PersistentVolumeClaim", "core/v1.PodTemplate", "resource.k8s.io/v1.ResourceClaimTemplate"}) {
    EXPECT_TRUE(find_type(with)->type_meta) << with;
  }
  for (const char* without :
       {"core/v1.PodTemplateSpec", "core/v1.PersistentVolumeClaimTemplate", "batch/v1.JobTemplateSpec",
        "meta/v1.ObjectMeta", "core/v1.PodSpec", "resource.k8s.io/v1.ResourceClaimTemplateSpec"}) {
    EXPECT_FALSE(find_type(without)->type_meta) << without;
  }
}

TEST(FieldTable, WhatIsWrittenEvenWhenZero) {
  EXPECT_TRUE(find_type("core/v1.Container")->find("resources")->always_written);
  EXPECT_TRUE(find_type("core/v1.Pod")->find("status")->always_written);
  EXPECT_FALSE(find_type("core/v1.PodSpec")->find("securityContext")->always_written);
  EXPECT_FALSE(find_type("meta/v1.ObjectMeta")->find("creationTimestamp")->always_written);
  EXPECT_TRUE(find_type("core/v1.PodCondition")->find("lastProbeTime")->always_written);
  EXPECT_TRUE(find_type("core/v1.PodSpec")->find("containers")->always_written);
}

}  // namespace
}  // namespace ghostfleet::kube
