// SPDX-License-Identifier: Apache-2.0
//
// Stories: one line per operation of a failing schedule, with its line of source.
#include <tests/model/scheduler.hpp>

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <ostream>
#include <string>
#include <string_view>

namespace gyre::model {
namespace {

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string source_line(const char* path, unsigned number) {
  std::ifstream file(path);
  std::string line;
  for (unsigned i = 0; i < number; ++i) {
    if (!std::getline(file, line)) return {};
  }
  const std::size_t begin = line.find_first_not_of(' ');
  return begin == std::string::npos ? std::string{} : line.substr(begin);
}

std::string padded(std::string text, std::size_t width) {
  // Counts bytes instead of characters, which suffices.
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text;
}

// Runs addr2line, which comes with every compiler.
std::string resolve(const void* pc) {
  Dl_info info{};
  std::array<char, 4096> program{};
  if (::dladdr(pc, &info) == 0 ||
      ::readlink("/proc/self/exe", program.data(), program.size() - 1) < 0) {
    return "?";
  }
  const auto offset =
      reinterpret_cast<std::uintptr_t>(pc) - 1 - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
  std::array<char, 8192> command{};
  std::snprintf(command.data(), command.size(), "addr2line -Cfpe '%s' 0x%zx 2>/dev/null",
                program.data(), static_cast<std::size_t>(offset));
  std::string line;
  if (FILE* output = ::popen(command.data(), "r"); output != nullptr) {
    for (int c = std::fgetc(output); c != EOF && c != '\n'; c = std::fgetc(output)) {
      line += static_cast<char>(c);
    }
    ::pclose(output);
  }
  return line.empty() ? "?" : line;
}

}  // namespace

std::string source_lines(const void* const (&pcs)[2]) {
  std::string lines;
  for (const void* pc : pcs) {
    if (pc != nullptr) lines += "  at " + resolve(pc) + '\n';
  }
  return lines;
}

void scheduler::log(detail::where at, const std::string& what) {
  std::string line = padded(std::to_string(steps_), 5) + "thread " +
                     std::to_string(running_->sees.id) + "  " + padded(what, 60);
  if (at.line() != 0) {
    line += ' ';
    line += file_name(at.file_name());
    line += ':' + std::to_string(at.line()) + "  " + source_line(at.file_name(), at.line());
  }
  log_ += line + '\n';
}

std::string scheduler::describe(std::uintptr_t address) const {
  const auto known = names_.find(address);
  if (known != names_.end()) return known->second;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "*%zx", static_cast<std::size_t>(address));
  return text.data();
}

std::ostream& operator<<(std::ostream& out, const result& shown) {
  if (shown.failure.empty()) {
    out << "no schedule fails";
  } else {
    out << shown.failure << "\n\n"
        << shown.story << "\nrun it again with GYRE_MODEL_REPLAY=" << shown.trace << '\n';
  }
  return out << (shown.failure.empty() ? ": " : "after ") << shown.schedules << " schedules, "
             << shown.pruned << " pruned, " << shown.steps << " operations, "
             << (shown.exhaustive ? "exhaustive" : "at most ")
             << (shown.exhaustive ? "" : std::to_string(shown.preemptions) + " preemptions") << ", "
             << shown.seconds << " s";
}

}  // namespace gyre::model
