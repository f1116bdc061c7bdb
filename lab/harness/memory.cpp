// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/memory.hpp>

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lab {
namespace {

// The path of the library of allocation_counter.cpp; empty with a sanitizer.
constexpr const char* counter_library = GYRE_LAB_ALLOCATION_COUNTER;

using read_function = void(std::uint64_t* allocations, std::uint64_t* bytes) noexcept;

// The preloaded library's counters; null in a process that does not count allocations.
read_function* find_counter() {
  static auto* const found =
      reinterpret_cast<read_function*>(dlsym(RTLD_DEFAULT, "gyre_lab_read_allocations"));
  return found;
}

struct counted {
  std::uint64_t allocations = 0;
  std::uint64_t bytes = 0;
};

std::optional<counted> read_counter() {
  read_function* const read = find_counter();
  if (read == nullptr) return std::nullopt;
  counted now;
  read(&now.allocations, &now.bytes);
  return now;
}

// The value in KiB of a line of /proc/self/status, as bytes.
std::uint64_t status_bytes(std::string_view key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (std::uint64_t kibibytes = 0; word == key && status >> kibibytes) return kibibytes * 1024;
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

}  // namespace

std::optional<std::uint64_t> allocations() {
  const std::optional<counted> now = read_counter();
  return now ? std::optional(now->allocations) : std::nullopt;
}

std::optional<std::uint64_t> allocated_bytes() {
  const std::optional<counted> now = read_counter();
  return now ? std::optional(now->bytes) : std::nullopt;
}

void count_allocations(const char* const* argv) {
  constexpr const char* preloaded = "LD_PRELOAD";
  if (*counter_library == '\0' || find_counter() != nullptr) return;
  const char* const before = std::getenv(preloaded);
  if (before != nullptr && std::string_view(before) == counter_library) {
    throw std::runtime_error(std::string("cannot count allocations: cannot preload ") +
                             counter_library);
  }
  setenv(preloaded, counter_library, 1);
  execv("/proc/self/exe", const_cast<char* const*>(argv));
  throw std::runtime_error(std::string("cannot count allocations: execv: ") + std::strerror(errno));
}

std::uint64_t peak_memory_bytes() { return status_bytes("VmHWM:"); }

std::uint64_t resident_bytes() { return status_bytes("VmRSS:"); }

}  // namespace lab
