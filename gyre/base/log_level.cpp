// SPDX-License-Identifier: Apache-2.0
#include <gyre/base/log_level.hpp>

#include <gyre/base/detail/log.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <new>
#include <string>

namespace gyre {
namespace {

constexpr std::array<std::string_view, 4> level_names{"off", "error", "warning", "info"};

// relaxed, for all accesses: neither variable guards other data.
constinit std::atomic<log_level> chosen_level{log_level::info};
constinit std::atomic<log_writer> chosen_writer{nullptr};

}  // namespace

log_level current_log_level() noexcept { return chosen_level.load(std::memory_order_relaxed); }

void set_log_level(log_level level) noexcept {
  chosen_level.store(level, std::memory_order_relaxed);
}

std::string_view to_string(log_level level) noexcept {
  return level_names.at(static_cast<std::size_t>(level));
}

std::optional<log_level> parse_log_level(std::string_view text) noexcept {
  for (std::size_t i = 0; i < level_names.size(); ++i) {
    if (level_names.at(i) == text) return static_cast<log_level>(i);
  }
  return std::nullopt;
}

void set_log_writer(log_writer writer) noexcept {
  chosen_writer.store(writer, std::memory_order_relaxed);
}

namespace detail {

void write_log(log_level level, std::initializer_list<std::string_view> parts) noexcept try {
  std::string message;
  for (const std::string_view part : parts) message.append(part);
  if (const log_writer writer = chosen_writer.load(std::memory_order_relaxed)) {
    return writer(level, message);
  }
  message += '\n';
  static_cast<void>(std::fwrite(message.data(), 1, message.size(), stderr));
} catch (const std::bad_alloc&) {
  return;  // without memory, the message is lost
}

}  // namespace detail
}  // namespace gyre
