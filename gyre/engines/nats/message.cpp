// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/message.hpp>

#include <gyre/base/detail/parse_decimal.hpp>

#include <algorithm>

namespace gyre::nats {
namespace {

constexpr std::string_view version = "NATS/1.0";
constexpr std::size_t status_digits = 3;

}  // namespace

header_view message::headers() const noexcept {
  const std::string_view block = part(&detail::message_block::headers);
  const std::size_t end = block.find("\r\n");
  if (!block.starts_with(version) || end == std::string_view::npos) return {};
  std::string_view lines = block.substr(end + 2);
  // Removes the empty line that ends the headers.
  if (lines.ends_with("\r\n")) lines.remove_suffix(2);
  return header_view(lines);
}

std::string_view message::status_line() const noexcept {
  const std::string_view block = part(&detail::message_block::headers);
  const std::string_view line = block.substr(0, block.find("\r\n"));
  if (!line.starts_with(version)) return {};
  const std::size_t first = line.find_first_not_of(' ', version.size());
  return first == std::string_view::npos ? std::string_view() : line.substr(first);
}

int message::status() const noexcept {
  return gyre::detail::parse_decimal<int>(status_line().substr(0, status_digits)).value_or(0);
}

std::string_view message::description() const noexcept {
  const std::string_view line = status_line();
  const std::size_t first = line.find_first_not_of(' ', std::min(status_digits, line.size()));
  return first == std::string_view::npos ? std::string_view() : line.substr(first);
}

}  // namespace gyre::nats
