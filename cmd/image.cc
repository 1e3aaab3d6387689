// ghostfleet image: pulls images from a registry into a folder, for real; lists, reads and removes them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <memory>
#include <thread>

#include "agent/image/image_reader.h"
#include "agent/image/lazy_image.h"
#include "agent/image/puller.h"
#include "base/files.h"
#include "cmd/commands.h"
#include "cmd/process.h"

namespace ghostfleet::cmd {
namespace {

using image::ContentStore;

struct ImageFlags {
  std::string reference, path;
  std::string store, puller = "parallel", output = "text", platform, ca_file, docker_config;
  std::string chunk_size, stall_timeout = "60s", max_unpacked_size;
  int downloads = 0, unpacks = 0;
  bool plain_http = false, strict_media_types = false, discard = false;
};

std::string store_of(const ImageFlags& flags) {
  return flags.store.empty() ? home_directory() + "/images" : flags.store;
}

Result<image::PullSettings> settings_of(const ImageFlags& flags) {
  auto mode = image::parse_pull_mode(flags.puller);
  if (!mode.ok()) return mode.error().with_context("--puller");
  image::PullSettings s = image::settings_of(*mode);
  if (flags.downloads != 0) s.max_concurrent_downloads_per_image = flags.downloads;
  if (flags.unpacks != 0) s.max_concurrent_unpacks_per_image = flags.unpacks;
  if (!flags.chunk_size.empty()) {
    auto size = image::parse_size(flags.chunk_size);
    if (!size.ok()) return size.error().with_context("--concurrent-download-chunk-size");
    if (*size != 0 && *size < 65536)
      return invalid_argument(
          fmt::format("--concurrent-download-chunk-size {}: 64kb at least, or 0 for whole layers", flags.chunk_size));
    s.concurrent_download_chunk_size = *size;
  }
  s.discard_unpacked_layers = flags.discard;
  return s;
}

Result<image::PullOptions> options_of(const ImageFlags& flags) {
  image::PullOptions o;
  auto settings = settings_of(flags);
  if (!settings.ok()) return settings.error();
  o.settings = *settings;
  if (!flags.platform.empty()) {
    auto platform = image::parse_platform(flags.platform);
    if (!platform.ok()) return platform.error().with_context("--platform");
    o.platform = *platform;
  }
  if (!parse_duration(flags.stall_timeout, &o.http.stall) || o.http.stall < std::chrono::seconds(1))
    return invalid_argument(
        fmt::format("--stall-timeout {}: a duration of at least 1s is expected", flags.stall_timeout));
  if (!flags.max_unpacked_size.empty()) {
    auto size = image::parse_size(flags.max_unpacked_size);
    if (!size.ok()) return size.error().with_context("--max-unpacked-size");
    o.limits.max_bytes = *size;
  }
  o.strict_media_types = flags.strict_media_types;
  if (!flags.ca_file.empty()) {
    auto file = authorities_file(flags.ca_file, "--ca-file");
    if (!file.ok()) return file.error();
    o.ca_file = std::move(*file);
  }
  o.registry.plain_http = flags.plain_http;
  auto config = image::DockerConfig::load(expand_home(flags.docker_config));
  if (!config.ok()) return config.error().with_context("--docker-config");
  o.registry.credentials = std::move(*config);
  return o;
}

// Runs `work` in a thread of its own, so that this one can take signals; they cancel it.
template <class Work>
Status with_signals(const Work& work) {
  image::CancelFlag cancel;
  std::atomic<bool> over{false};
  Status status;
  std::thread thread([&] {
    status = work(&cancel);
    over = true;
  });
  while (!over) {
    if (wait_for_signal(std::chrono::milliseconds(10)) != 0) cancel.cancel();
  }
  thread.join();
  return status;
}

int refused(const Status& status) {
  switch (status.code()) {
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
    case Code::kUnauthenticated:
    case Code::kPermissionDenied: return fail(status, kExitCluster);
    default: return fail(status, kExitFailed);
  }
}

kube::JsonObject report_json(const image::PullReport& r) {
  kube::JsonArray layers;
  for (const image::LayerReport& l : r.layers) {
    layers.emplace_back(kube::JsonObject{{"digest", l.digest},
                                         {"state", l.state},
                                         {"size", l.size},
                                         {"unpackedBytes", l.tar_bytes},
                                         {"files", l.files},
                                         {"resumedBytes", l.resumed}});
  }
  return kube::JsonObject{{"image", r.reference},       {"manifest", r.manifest},
                          {"platform", r.platform},     {"puller", r.mode},
                          {"rootfs", r.rootfs},         {"layers", std::move(layers)},
                          {"bytes", r.bytes},           {"unpackedBytes", r.unpacked_bytes},
                          {"files", r.files},           {"skippedAttributes", r.skipped_attributes},
                          {"requests", r.requests},     {"repeats", r.repeats},
                          {"throttled", r.throttled},   {"logins", r.logins},
                          {"redirects", r.redirects},   {"stalls", r.stalls},
                          {"seconds", r.seconds},       {"secondsToManifest", r.seconds_to_manifest},
                          {"cpuSeconds", cpu_seconds()}};
}

void print_report(const image::PullReport& r) {
  for (const image::LayerReport& l : r.layers)
    std::printf("%s\n",
                fmt::format("{}  {:>8.1f} MB  {}", l.digest, static_cast<double>(l.size) / 1e6, l.state).c_str());
  const double mb = static_cast<double>(r.bytes) / 1e6;
  std::printf("%s\n", fmt::format("{} ({})\n{}: {:.1f} MB in {:.2f} s, {} requests{}{}", r.reference, r.platform,
                                  r.manifest, mb, r.seconds, r.requests, r.rootfs.empty() ? "" : "\nroot: ", r.rootfs)
                          .c_str());
}

int run_pull(const ImageFlags& flags) {
  auto reference = image::parse_reference(flags.reference);
  if (!reference.ok()) return fail(reference.error(), kExitUsage);
  auto options = options_of(flags);
  if (!options.ok()) return fail(options.error(), kExitUsage);
  auto store = ContentStore::open(store_of(flags), ContentStore::Lock::kShared);
  if (!store.ok()) return fail(store.error(), kExitFailed);
  image::Puller puller(store->get(), std::move(*options));
  image::PullReport report;
  const Status status = with_signals([&](image::CancelFlag* cancel) {
    auto pulled = puller.pull(*reference, cancel);
    if (!pulled.ok()) return pulled.error();
    report = std::move(*pulled);
    return Status();
  });
  if (!status.ok()) return refused(status);
  if (flags.output == "json") {
    std::printf("%s\n", kube::to_json(report_json(report)).c_str());
  } else {
    print_report(report);
  }
  return kExitOk;
}

int run_list(const ImageFlags& flags) {
  auto store = ContentStore::open(store_of(flags), ContentStore::Lock::kShared);
  if (!store.ok()) return fail(store.error(), kExitFailed);
  auto images = (*store)->images();
  if (!images.ok()) return fail(images.error(), kExitFailed);
  if (flags.output != "json")
    std::printf("%s\n",
                fmt::format("{:<60} {:<15} {:<9} {:>12}  {}", "IMAGE", "PLATFORM", "PULLER", "SIZE", "PULLED").c_str());
  kube::JsonArray items;
  for (const image::ImageRecord& r : *images) {
    items.emplace_back(kube::JsonObject{{"image", r.reference},
                                        {"manifest", r.manifest},
                                        {"platform", r.platform},
                                        {"puller", r.puller},
                                        {"size", r.size},
                                        {"pulled", r.pulled},
                                        {"rootfs", r.chain.empty() ? "" : (*store)->rootfs_path(r.chain)}});
    if (flags.output != "json")
      std::printf("%s\n", fmt::format("{:<60} {:<15} {:<9} {:>9.1f} MB  {}", r.reference, r.platform, r.puller,
                                      static_cast<double>(r.size) / 1e6, r.pulled)
                              .c_str());
  }
  if (flags.output == "json") std::printf("%s\n", kube::to_json(kube::JsonObject{{"items", std::move(items)}}).c_str());
  return kExitOk;
}

int run_remove(const ImageFlags& flags) {
  auto reference = image::parse_reference(flags.reference);
  if (!reference.ok()) return fail(reference.error(), kExitUsage);
  auto store = ContentStore::open(store_of(flags), ContentStore::Lock::kAlone);
  if (!store.ok()) return fail(store.error(), kExitFailed);
  if (Status s = (*store)->remove_image(reference->to_string()); !s.ok()) return fail(s, kExitFailed);
  auto gone = (*store)->collect();
  if (!gone.ok()) return fail(gone.error(), kExitFailed);
  std::printf("%s\n", fmt::format("removed {}: {} blobs, {} layers, {} root file systems", reference->to_string(),
                                  gone->blobs, gone->layers, gone->roots)
                          .c_str());
  return kExitOk;
}

Status to_stdout(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size()) return Status();
  return Status(Code::kUnavailable, "writing to standard output failed");
}

// From the merged root when the image is there, else lazily; an image that is not known is looked up first.
Status cat(const ImageFlags& flags, const image::Reference& reference, image::PullOptions options, ContentStore* store,
           image::CancelFlag* cancel) {
  const std::string name = reference.to_string();
  auto record = store->find_image(name);
  if (record.ok() && !record->chain.empty()) return image::read_unpacked(*store, *record, flags.path, to_stdout);
  if (!record.ok() && record.error().code() != Code::kNotFound) return record.error();
  if (record.ok() && record->plain_http) options.registry.plain_http = true;
  image::HttpClient http(options.http, options.ca_file, "ghostfleet");
  image::Registry registry(&http, reference, options.registry, cancel);
  auto resolved = record.ok() ? image::stored_image(*record, *store)
                              : image::resolve_image(&registry, reference, options.platform, store);
  if (!resolved.ok()) return resolved.error();
  image::LazyImage lazy(&registry, store, *resolved, options.limits);
  return lazy.read(flags.path, to_stdout);
}

int run_cat(const ImageFlags& flags) {
  auto reference = image::parse_reference(flags.reference);
  if (!reference.ok()) return fail(reference.error(), kExitUsage);
  auto options = options_of(flags);
  if (!options.ok()) return fail(options.error(), kExitUsage);
  auto store = ContentStore::open(store_of(flags), ContentStore::Lock::kShared);
  if (!store.ok()) return fail(store.error(), kExitFailed);
  const Status status = with_signals(
      [&](image::CancelFlag* cancel) { return cat(flags, *reference, std::move(*options), store->get(), cancel); });
  std::fflush(stdout);
  return status.ok() ? kExitOk : refused(status);
}

void add_store_flag(CLI::App* command, const std::shared_ptr<ImageFlags>& f) {
  command->add_option("--image-store", f->store, "the folder images are kept in (default: ~/.ghostfleet/images)");
}

void add_registry_flags(CLI::App* command, const std::shared_ptr<ImageFlags>& f) {
  command->add_option("--platform", f->platform, "OS/ARCHITECTURE of the image (default: this machine's)");
  command->add_flag("--plain-http", f->plain_http, "speak HTTP without TLS to the registry");
  command->add_option("--ca-file", f->ca_file, "further certificate authorities (PEM)");
  command->add_option("--docker-config", f->docker_config,
                      "user names and passwords of registries (default: ~/.docker/config.json)");
  command->add_option("--stall-timeout", f->stall_timeout,
                      "a transfer without a byte for so long is cut and tried again");
}

void add_output_flag(CLI::App* command, const std::shared_ptr<ImageFlags>& f) {
  command->add_option("-o,--output", f->output, "json, or text (default)")->check(CLI::IsMember({"json", "text"}));
}

}  // namespace

void add_image(CLI::App& app, Runner* run) {
  CLI::App* command = app.add_subcommand("image", "pull, list, read and remove images, for real");
  command->require_subcommand(0, 1);  // a missing one is told by main, which knows what was typed instead
  auto f = std::make_shared<ImageFlags>();

  CLI::App* pull = command->add_subcommand("pull", "pull an image into the store");
  pull->add_option("image", f->reference, "REGISTRY/REPOSITORY:TAG or ...@sha256:DIGEST")->required();
  pull->add_option(
          "--puller", f->puller,
          "default (as containerd does), parallel (chunks, unpacked side by side) or lazy (tables of contents only)")
      ->check(CLI::IsMember({"default", "parallel", "lazy"}));
  pull->add_option("--max-concurrent-downloads-per-image", f->downloads,
                   "requests at a time (parallel: 20, default: 3)")
      ->check(CLI::Range(1, 256));
  pull->add_option("--max-concurrent-unpacks-per-image", f->unpacks,
                   "layers unpacked at a time (parallel: 12, default: 1)")
      ->check(CLI::Range(1, 256));
  pull->add_option("--concurrent-download-chunk-size", f->chunk_size,
                   "size of a range (parallel: 16mb; 0: whole layers)");
  pull->add_option("--max-unpacked-size", f->max_unpacked_size, "refuse layers that unpack to more (default: 256gb)");
  pull->add_flag("--discard-unpacked-layers", f->discard, "do not keep the blobs of unpacked layers");
  pull->add_flag("--strict-media-types", f->strict_media_types,
                 "refuse media types no specification has (zstd in a Docker manifest)");
  add_store_flag(pull, f);
  add_registry_flags(pull, f);
  add_output_flag(pull, f);
  pull->callback([=] { *run = [=] { return run_pull(*f); }; });

  CLI::App* list = command->add_subcommand("ls", "list the images of the store");
  add_store_flag(list, f);
  add_output_flag(list, f);
  list->callback([=] { *run = [=] { return run_list(*f); }; });

  CLI::App* cat = command->add_subcommand("cat", "print a file of an image; one that is not there is read lazily");
  cat->add_option("image", f->reference, "the image")->required();
  cat->add_option("path", f->path, "the file's path in it")->required();
  add_store_flag(cat, f);
  add_registry_flags(cat, f);
  cat->callback([=] { *run = [=] { return run_cat(*f); }; });

  CLI::App* remove = command->add_subcommand("rm", "remove an image and what only it needs");
  remove->add_option("image", f->reference, "the image")->required();
  add_store_flag(remove, f);
  remove->callback([=] { *run = [=] { return run_remove(*f); }; });
}

}  // namespace ghostfleet::cmd
