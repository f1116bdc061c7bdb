// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without libFuzzer, so that it is a test with every compiler: first the files
// on the command line, each alone, then reproducible random inputs and mutations.
//
//     gyre_fuzz_NAME [--runs=N] [--seed=N] [FILE | FOLDER]…
//
// An input that ends the program is printed in hexadecimal.
#include <tests/fuzz/fuzz.hpp>

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

// A function of the sanitizers' runtimes; null without them.
extern "C" [[gnu::weak]] void __sanitizer_set_death_callback(void (*function)());

namespace {

using bytes = std::vector<std::uint8_t>;

constinit const bytes* running = nullptr;

// Async-signal-safe.
void print_running_input() {
  if (running == nullptr) return;
  constexpr std::string_view digits = "0123456789abcdef";
  std::string_view head = "the input, to be turned into a file by `xxd -r -p`:\n";
  [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, head.data(), head.size());
  for (const std::uint8_t byte : *running) {
    const char pair[2] = {digits[byte >> 4], digits[byte & 15]};
    written = ::write(STDERR_FILENO, pair, sizeof pair);
  }
  written = ::write(STDERR_FILENO, "\n", 1);
}

extern "C" void die(int signal) {
  print_running_input();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void watch_for_death() {
  std::signal(SIGABRT, &die);
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(&print_running_input);
  } else {
    std::signal(SIGSEGV, &die);
  }
}

void run(const bytes& input) {
  running = &input;
  static_cast<void>(LLVMFuzzerTestOneInput(input.data(), input.size()));
  running = nullptr;
}

// Makes inputs: some of arbitrary bytes, some of few distinct bytes, some by mutating earlier ones.
class generator {
 public:
  generator(std::uint64_t seed, std::vector<bytes> corpus)
      : random_(seed), pool_(std::move(corpus)) {}

  bytes next() {
    bytes made = pool_.empty() || below(3) == 0 ? make() : change(pool_[below(pool_.size())]);
    constexpr std::size_t pool_size = 64;
    if (pool_.size() < pool_size) {
      pool_.push_back(made);
    } else {
      pool_[below(pool_size)] = made;
    }
    return made;
  }

 private:
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }

  // Short inputs are as frequent as long ones.
  std::size_t length() { return below(std::size_t{2} << below(10)); }

  bytes make() {
    bytes made(length());
    const std::size_t different = below(2) == 0 ? 256 : 1 + below(8);
    for (std::uint8_t& each : made) each = static_cast<std::uint8_t>(below(different));
    return made;
  }

  bytes change(bytes input) {
    constexpr std::size_t longest = 4096;
    for (std::size_t times = 1 + below(4); times != 0; --times) {
      const auto at = static_cast<std::ptrdiff_t>(below(input.size() + 1));
      const auto rest = static_cast<std::size_t>(std::ssize(input) - at);
      const auto count = static_cast<std::ptrdiff_t>(std::min(rest, below(32)));
      switch (below(5)) {
        case 0:
          if (rest != 0)
            input[static_cast<std::size_t>(at)] ^= static_cast<std::uint8_t>(1 << below(8));
          break;
        case 1: input.insert(input.begin() + at, static_cast<std::uint8_t>(random_())); break;
        case 2: input.erase(input.begin() + at, input.begin() + at + count); break;
        case 3: {
          const bytes part(input.begin() + at, input.begin() + at + count);
          input.insert(input.begin() + at, part.begin(), part.end());
          break;
        }
        default: {
          const bytes& other = pool_[below(pool_.size())];
          input.insert(input.begin() + at, other.begin(), other.end());
        }
      }
      if (input.size() > longest) input.resize(longest);
    }
    return input;
  }

  std::mt19937_64 random_;
  std::vector<bytes> pool_;
};

bytes read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    std::exit(2);
  }
  return bytes(std::istreambuf_iterator<char>(file), {});
}

std::vector<bytes> read_corpus(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return {read_file(path)};
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(path)) paths.push_back(entry.path());
  std::ranges::sort(paths);
  std::vector<bytes> corpus;
  for (const auto& each : paths) corpus.push_back(read_file(each));
  return corpus;
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t runs = 10'000;
  std::uint64_t seed = 1;
  std::vector<bytes> corpus;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with("--runs=")) {
      runs = std::stoull(argument.substr(7));
    } else if (argument.starts_with("--seed=")) {
      seed = std::stoull(argument.substr(7));
    } else {
      for (bytes& input : read_corpus(argument)) corpus.push_back(std::move(input));
    }
  }

  watch_for_death();
  run({});
  for (const bytes& input : corpus) run(input);
  generator inputs(seed, corpus);
  for (std::uint64_t i = 0; i < runs; ++i) run(inputs.next());
  std::printf("%zu files and %llu inputs\n", corpus.size(), static_cast<unsigned long long>(runs));
}
