// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/nats/detail/subject.hpp>

#include <gyre/engines/nats/error.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <system_error>

namespace gyre::nats::detail {
namespace {

// The server's limit of a line has room for two subjects of this size.
constexpr std::size_t max_subject = 2000;

[[noreturn]] void refuse_subject(const char* problem, std::string_view text) {
  constexpr std::size_t max_shown_size = 100;
  throw std::system_error(make_error_code(errc::bad_subject),
                          std::string("gyre::nats: ") + problem + " '" +
                              std::string(text.substr(0, max_shown_size)) + "'");
}

bool is_printable(char character) noexcept {
  return static_cast<unsigned char>(character) > ' ' && character != '\x7f';
}

// Whether the tokens are valid. A wildcard is valid if `may_have_wildcards`.
bool has_good_tokens(std::string_view subject, bool may_have_wildcards) noexcept {
  std::size_t first = 0;
  for (std::size_t i = 0; i <= subject.size(); ++i) {
    if (i < subject.size() && subject[i] != '.') {
      if (!is_printable(subject[i])) return false;
      continue;
    }
    const std::string_view token = subject.substr(first, i - first);
    if (token.empty()) return false;
    if (token == "*" && !may_have_wildcards) return false;
    if (token == ">" && (!may_have_wildcards || i < subject.size())) return false;
    first = i + 1;
  }
  return true;
}

}  // namespace

void check_subject(std::string_view subject) {
  if (subject.size() > max_subject || !has_good_tokens(subject, false)) {
    refuse_subject("subject", subject);
  }
}

void check_pattern(std::string_view subject) {
  if (subject.size() > max_subject || !has_good_tokens(subject, true))
    refuse_subject("subject", subject);
}

void check_queue_group(std::string_view name) {
  if (name.size() > max_subject || !std::ranges::all_of(name, is_printable)) {
    refuse_subject("queue group", name);
  }
}

}  // namespace gyre::nats::detail
