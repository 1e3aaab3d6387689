// Runs a fuzz target for a moment on mutated seeds, so that the normal tests notice a decoder that crashes. Seeds are
// what fuzz_seeds() of the target gives; the generator is seeded, so a failure repeats.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
std::vector<std::string> fuzz_seeds();

namespace {

uint64_t g_state = 0x9e3779b97f4a7c15ULL;
uint64_t next_random() {
  g_state ^= g_state << 13;
  g_state ^= g_state >> 7;
  g_state ^= g_state << 17;
  return g_state;
}

std::string mutate(std::string input, const std::vector<std::string>& seeds) {
  const uint64_t rounds = 1 + next_random() % 4;
  for (uint64_t i = 0; i < rounds; ++i) {
    const size_t at = input.empty() ? 0 : next_random() % input.size();
    switch (next_random() % 6) {
      case 0:
        if (!input.empty()) input[at] = static_cast<char>(next_random());
        break;
      case 1: input.insert(at, 1, static_cast<char>(next_random())); break;
      case 2:
        if (!input.empty()) input.erase(at, 1 + next_random() % 8);
        break;
      case 3: input.resize(at); break;
      case 4: input.insert(at, input.substr(at, next_random() % 64)); break;
      default: {
        const std::string& other = seeds[next_random() % seeds.size()];
        const size_t from = other.empty() ? 0 : next_random() % other.size();
        input.insert(at, other.substr(from, next_random() % 64));
      }
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  const double seconds = argc == 3 && std::strcmp(argv[1], "--seconds") == 0 ? std::atof(argv[2]) : 1;
  const std::vector<std::string> seeds = fuzz_seeds();
  auto run = [](const std::string& s) { LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(s.data()), s.size()); };
  for (const std::string& s : seeds) run(s);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  uint64_t runs = seeds.size();
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 64; ++i, ++runs) run(mutate(seeds[next_random() % seeds.size()], seeds));
  }
  std::printf("%llu inputs\n", static_cast<unsigned long long>(runs));
  return runs > seeds.size() ? 0 : 1;
}
