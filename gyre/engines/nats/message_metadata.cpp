// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/message_metadata.hpp>

#include <array>
#include <charconv>
#include <cstddef>

namespace gyre::nats::detail {
namespace {

// The first two tokens of the subject, and the number of tokens of each of its two forms.
constexpr std::string_view ack_subject_prefix = "$JS.ACK.";
constexpr std::size_t short_form = 7;
// The form with a domain and an account may have further tokens.
constexpr std::size_t long_form = 9;
constexpr std::size_t max_ack_tokens = 16;

template <class Integer>
bool read_number(std::string_view text, Integer& result) noexcept {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

std::optional<message_metadata> parse_ack_subject(std::string_view subject) {
  if (!subject.starts_with(ack_subject_prefix)) return std::nullopt;
  subject.remove_prefix(ack_subject_prefix.size());
  std::array<std::string_view, max_ack_tokens> tokens;
  std::size_t count = 0;
  for (;;) {
    if (count == tokens.size()) return std::nullopt;
    const std::size_t end = subject.find('.');
    tokens[count++] = subject.substr(0, end);
    if (end == std::string_view::npos) break;
    subject.remove_prefix(end + 1);
  }
  if (count != short_form && count < long_form) return std::nullopt;

  message_metadata result;
  const std::string_view* token = tokens.data();
  if (count >= long_form) {
    if (token[0] != "_") result.domain = token[0];
    token += 2;
  }
  result.stream = token[0];
  result.consumer = token[1];
  std::int64_t nanoseconds = 0;
  const bool is_complete =
      read_number(token[2], result.deliveries) && read_number(token[3], result.stream_sequence) &&
      read_number(token[4], result.consumer_sequence) && read_number(token[5], nanoseconds) &&
      read_number(token[6], result.pending);
  if (!is_complete || result.stream.empty() || result.consumer.empty()) return std::nullopt;
  result.stored = server_time(std::chrono::nanoseconds(nanoseconds));
  return result;
}

}  // namespace gyre::nats::detail
