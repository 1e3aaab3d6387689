// Bytes to the SPDY engine as server and as client, with windows and without, in two pieces.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "kube/stream/spdy.h"
#include "kube/stream/spdy_headers.h"

namespace {

using namespace ghostfleet::kube::stream;
namespace http = ghostfleet::kube::http;

struct Answerer : SpdyEvents {
  Spdy* engine = nullptr;
  void on_stream(SpdyStreamId id, const http::HeaderList& headers, bool fin) override {
    if (engine->open_streams() > 8 || headers.size() > 20) std::abort();
    if (headers.get("streamtype") == "stdin") return engine->reply(id, headers, fin);
    if (headers.empty()) engine->reset(id, SpdyReset::kCancel);
  }
  void on_data(SpdyStreamId id, std::string_view bytes) override {
    engine->write(id, bytes, bytes.size() % 7 == 0);
    engine->consumed(id, bytes.size());
  }
  void on_fin(SpdyStreamId id) override { engine->finish(id); }
  void on_reset(SpdyStreamId, SpdyReset) override {}
  void on_output(ghostfleet::SharedBytes) override {}
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const bool server : {true, false}) {
    for (const bool windows : {true, false}) {
      Answerer answerer;
      SpdyOptions options{.server = server, .flow_control = windows};
      options.limits = {.max_control_bytes = 4096, .max_header_bytes = 4096, .max_header_count = 20, .max_streams = 8};
      const auto engine = Spdy::create(options, &answerer);
      answerer.engine = engine.get();
      if (engine->feed(bytes.substr(0, size / 2)).ok()) (void)engine->feed(bytes.substr(size / 2));
    }
  }
  return 0;
}

std::vector<std::string> fuzz_seeds() {
  struct Recorder : SpdyEvents {
    std::string output;
    void on_stream(SpdyStreamId, const http::HeaderList&, bool) override {}
    void on_data(SpdyStreamId, std::string_view) override {}
    void on_fin(SpdyStreamId) override {}
    void on_reset(SpdyStreamId, SpdyReset) override {}
    void on_output(ghostfleet::SharedBytes bytes) override { output.append(*bytes); }
  };
  std::vector<std::string> seeds;
  for (const bool server : {false, true}) {
    Recorder recorder;
    const auto engine = Spdy::create({.server = server}, &recorder);
    const SpdyStreamId error = engine->open_stream({{"streamtype", "error"}}, false);
    const SpdyStreamId in = engine->open_stream({{"streamtype", "stdin"}, {"port", "80"}, {"requestid", "0"}}, false);
    engine->write(in, "some bytes", false);
    engine->ping(1);
    engine->finish(in);
    engine->reset(error, SpdyReset::kCancel);
    engine->goaway(0);
    seeds.push_back(recorder.output);
  }
  seeds.push_back(std::string("\x80\x03\x00\x04\x00\x00\x00\x0c\x00\x00\x00\x01\x00\x00\x00\x07\x00\x00\x10\x00", 20));
  seeds.push_back(std::string("\x80\x03\x00\x09\x00\x00\x00\x08\x00\x00\x00\x00\x7f\xff\xff\xff", 16));
  return seeds;
}
