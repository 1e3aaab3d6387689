#include "cmd/image_store_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/files.h"
#include "cmd/process.h"

namespace ghostfleet::cmd {
namespace {

constexpr int kMostPulls = 64;

// A flag that means nothing without the store.
std::string flag_without_store(const ImageStoreFlags& flags) {
  if (!flags.puller.empty()) return "--image-puller";
  if (!flags.platform.empty()) return "--image-platform";
  if (!flags.ca_file.empty()) return "--image-ca-file";
  if (!flags.docker_config.empty()) return "--image-docker-config";
  if (!flags.insecure.empty()) return "--image-insecure-registry";
  if (flags.parallel != 0) return "--max-parallel-image-pulls";
  if (flags.no_background_fetch) return "--no-image-background-fetch";
  if (!flags.background_fetch_delay.empty()) return "--image-background-fetch-delay";
  if (flags.gc_high >= 0) return "--image-gc-high-threshold";
  if (flags.gc_low >= 0) return "--image-gc-low-threshold";
  if (!flags.minimum_ttl.empty()) return "--minimum-image-ttl-duration";
  if (!flags.verification.empty()) return "--image-pull-credentials-verification-policy";
  if (!flags.allowlist.empty()) return "--preloaded-images-verification-allowlist";
  return flags.serialize ? "--serialize-image-pulls" : "";
}

Status check_registry(const std::string& name) {
  const auto reference = image::parse_reference(name + "/a");
  if (reference.ok() && reference->registry == name && reference->repository == "a") return Status();
  return invalid_argument(fmt::format(
      "--image-insecure-registry \"{}\": a registry as in the names of images is expected, e.g. 127.0.0.1:5000", name));
}

Result<image::PullOptions> pull_options(const ImageStoreFlags& flags) {
  image::PullOptions o;
  auto mode = image::parse_pull_mode(flags.puller.empty() ? "parallel" : flags.puller);
  if (!mode.ok()) return mode.error().with_context("--image-puller");
  o.settings = image::settings_of(*mode);
  if (!flags.platform.empty()) {
    auto platform = image::parse_platform(flags.platform);
    if (!platform.ok()) return platform.error().with_context("--image-platform");
    o.platform = *platform;
  }
  if (!flags.ca_file.empty()) {
    auto file = authorities_file(flags.ca_file, "--image-ca-file");
    if (!file.ok()) return file.error();
    o.ca_file = std::move(*file);
  }
  auto users = image::DockerConfig::load(expand_home(flags.docker_config));
  if (!users.ok()) return users.error().with_context("--image-docker-config");
  o.registry.credentials = std::move(*users);
  return o;
}

Status set_collection(const ImageStoreFlags& flags, emulator::CollectionRules* out) {
  if (flags.gc_high >= 0) out->high_percent = flags.gc_high;
  if (flags.gc_low >= 0) out->low_percent = flags.gc_low;
  if (out->low_percent >= out->high_percent)
    return invalid_argument(
        fmt::format("--image-gc-low-threshold {}: less than --image-gc-high-threshold ({}) is expected",
                    out->low_percent, out->high_percent));
  if (flags.minimum_ttl.empty()) return Status();
  if (!parse_duration(flags.minimum_ttl, &out->minimum_age) || out->minimum_age < Duration(0))
    return invalid_argument(
        fmt::format("--minimum-image-ttl-duration \"{}\": a duration such as 2m is expected", flags.minimum_ttl));
  return Status();
}

Status set_verification(const ImageStoreFlags& flags, image::VerificationRules* out) {
  if (!flags.verification.empty()) {
    auto policy = image::parse_verification_policy(flags.verification);
    if (!policy.ok()) return policy.error().with_context("--image-pull-credentials-verification-policy");
    out->policy = *policy;
  }
  const bool by_list = out->policy == image::VerificationPolicy::kNeverVerifyAllowlistedImages;
  if (!flags.allowlist.empty() && !by_list)
    return invalid_argument(
        "--preloaded-images-verification-allowlist: --image-pull-credentials-verification-policy "
        "NeverVerifyAllowlistedImages is needed with it");
  for (const std::string& entry : flags.allowlist)
    GF_RETURN_IF_ERROR(image::check_allowed_image(entry).with_context("--preloaded-images-verification-allowlist"));
  out->allowed = flags.allowlist;
  return Status();
}

Status set_reads(const ImageStoreFlags& flags, emulator::ImageStoreOptions* out) {
  const bool given = flags.no_background_fetch || !flags.background_fetch_delay.empty();
  if (given && out->pull.settings.mode != image::PullMode::kLazy)
    return invalid_argument(
        fmt::format("{}: --image-puller lazy is needed with it",
                    flags.no_background_fetch ? "--no-image-background-fetch" : "--image-background-fetch-delay"));
  if (flags.no_background_fetch && !flags.background_fetch_delay.empty())
    return invalid_argument("--no-image-background-fetch and --image-background-fetch-delay: give one of them");
  out->reads.background = !flags.no_background_fetch;
  out->docker_config = expand_home(flags.docker_config);
  if (flags.background_fetch_delay.empty()) return Status();
  if (!parse_duration(flags.background_fetch_delay, &out->reads.silence) || out->reads.silence < Duration(0))
    return invalid_argument(fmt::format("--image-background-fetch-delay \"{}\": a duration such as 30s is expected",
                                        flags.background_fetch_delay));
  return Status();
}

}  // namespace

void add_image_store_flags(CLI::App& command, ImageStoreFlags* flags) {
  command.add_option("--image-store", flags->store,
                     "really pull the images of pods from their registries into this folder (docs/image-pull.md), "
                     "instead of rules or a model; nothing of an image is run");
  command
      .add_option(
          "--image-puller", flags->puller,
          "how (as `ghostfleet image pull --puller`): parallel (when not told), default, or lazy: files come when "
          "containers read them (the word read= of their behaviour), the rest in the background")
      ->check(CLI::IsMember({"parallel", "default", "lazy"}));
  command.add_flag("--no-image-background-fetch", flags->no_background_fetch,
                   "with --image-puller lazy: what nobody reads is never fetched");
  command.add_option("--image-background-fetch-delay", flags->background_fetch_delay,
                     "with --image-puller lazy: how long after an image came nothing is fetched in the background "
                     "(default 30s)");
  command
      .add_option("--max-parallel-image-pulls", flags->parallel,
                  "images pulled at the same time; the others wait (default 5)")
      ->check(CLI::Range(1, kMostPulls));
  command.add_flag("--serialize-image-pulls", flags->serialize, "pull one image after the other");
  command
      .add_option("--image-gc-high-threshold", flags->gc_high,
                  "percent of the folder's file system from which on unused images go, looked at every five minutes "
                  "(default 85; 100: never)")
      ->check(CLI::Range(0, 100));
  command.add_option("--image-gc-low-threshold", flags->gc_low, "until it is used no more than that (default 80)")
      ->check(CLI::Range(0, 100));
  command.add_option("--minimum-image-ttl-duration", flags->minimum_ttl,
                     "how old an image is at least before it goes (default 2m)");
  command.add_option("--image-pull-credentials-verification-policy", flags->verification,
                     "which images that are there a pod may use without the credentials they were pulled with: those "
                     "that no agent has pulled (NeverVerifyPreloadedImages, the default), all (NeverVerify), those of "
                     "a list (NeverVerifyAllowlistedImages), or none (AlwaysVerify)");
  command
      .add_option("--preloaded-images-verification-allowlist", flags->allowlist,
                  "that list: REGISTRY/REPOSITORY or REGISTRY/PART/*,...")
      ->delimiter(',');
  command.add_option("--image-platform", flags->platform,
                     "OS/ARCHITECTURE of the images (default: this machine's, not the node's)");
  command
      .add_option("--image-insecure-registry", flags->insecure,
                  "registries that are spoken to over HTTP without TLS: HOST:PORT,...")
      ->delimiter(',');
  command.add_option("--image-ca-file", flags->ca_file, "further certificate authorities of registries (PEM)");
  command.add_option("--image-docker-config", flags->docker_config,
                     "users and passwords of registries for pods without pull secrets (default: "
                     "$DOCKER_CONFIG/config.json or ~/.docker/config.json)");
}

Result<std::shared_ptr<const emulator::ImageStoreOptions>> image_store_options(const ImageStoreFlags& flags) {
  using Options = std::shared_ptr<const emulator::ImageStoreOptions>;
  if (flags.store.empty()) {
    const std::string flag = flag_without_store(flags);
    if (!flag.empty()) return invalid_argument(flag + ": --image-store is needed with it");
    return Options();
  }
  if (flags.serialize && flags.parallel > 1)
    return invalid_argument(
        fmt::format("--serialize-image-pulls and --max-parallel-image-pulls {}: give one of them", flags.parallel));
  emulator::ImageStoreOptions o;
  auto pull = pull_options(flags);
  if (!pull.ok()) return pull.error();
  o.pull = std::move(*pull);
  for (const std::string& registry : flags.insecure) GF_RETURN_IF_ERROR(check_registry(registry));
  o.plain_http = flags.insecure;
  if (flags.parallel != 0) o.limits.parallel = flags.parallel;
  if (flags.serialize) o.limits.parallel = 1;
  GF_RETURN_IF_ERROR(set_reads(flags, &o));
  GF_RETURN_IF_ERROR(set_collection(flags, &o.collection));
  GF_RETURN_IF_ERROR(set_verification(flags, &o.verification));
  o.folder = expand_home(flags.store);
  const auto store = image::ContentStore::open(o.folder, image::ContentStore::Lock::kShared);
  if (!store.ok()) return store.error().with_context("--image-store");
  return Options(std::make_shared<const emulator::ImageStoreOptions>(std::move(o)));
}

}  // namespace ghostfleet::cmd
