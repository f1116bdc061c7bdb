// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/message_parser.hpp>

#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/find_control.hpp>
#include <gyre/http/detail/host_list.hpp>

#include <algorithm>
#include <array>

namespace gyre::http::detail {
namespace {

// The initial capacity for fields, which suffices for most responses.
constexpr std::size_t usual_fields = 8;

std::string_view between(const char* begin, const char* end) noexcept {
  return {begin, static_cast<std::size_t>(end - begin)};
}

// Removes and returns the next element of a comma-separated list. Elements may be empty.
std::string_view take_element(std::string_view& list) noexcept {
  return trim(take_until(list, ','));
}

bool has_element(std::string_view list) noexcept {
  while (!list.empty()) {
    if (!take_element(list).empty()) return true;
  }
  return false;
}

// The fields that decide on the framing, collected in one pass over the field lines.
struct framing_fields {
  std::string_view host;
  std::string_view length;
  std::string_view coding;
  unsigned hosts = 0;
  unsigned lengths = 0;
  unsigned codings = 0;
  bool close = false;
  bool keep_alive = false;
  bool upgrade_option = false;
  bool upgrade_field = false;
  bool expect_continue = false;
  bool other_expectation = false;

  // Records the elements of Expect. Empty elements are ignored (RFC 9110 5.6.1.2). An element with
  // parameters counts as unknown.
  void note_expectations(std::string_view value) noexcept {
    while (!value.empty()) {
      const std::string_view element = take_element(value);
      if (element.empty()) continue;
      (equals_lower(element, "100-continue") ? expect_continue : other_expectation) = true;
    }
  }

  void note_connection(std::string_view value) noexcept {
    do {
      const std::string_view option = take_element(value);
      if (equals_lower(option, "close")) close = true;
      if (equals_lower(option, "keep-alive")) keep_alive = true;
      if (equals_lower(option, "upgrade")) upgrade_option = true;
    } while (!value.empty());
  }

  void note(std::string_view name, std::string_view value) noexcept {
    switch (name.size()) {
      case 4:
        if (equals_lower(name, "host")) {
          host = value;
          ++hosts;
        }
        break;
      case 6:
        if (equals_lower(name, "expect")) note_expectations(value);
        break;
      case 7:
        if (equals_lower(name, "upgrade")) upgrade_field = upgrade_field || has_element(value);
        break;
      case 10:
        if (equals_lower(name, "connection")) note_connection(value);
        break;
      case 14:
        if (equals_lower(name, "content-length")) {
          length = value;
          ++lengths;
        }
        break;
      case 17:
        if (equals_lower(name, "transfer-encoding")) {
          coding = value;
          ++codings;
        }
        break;
      default: break;
    }
  }
};

// Parses the field line at `position`, and sets `position` to the next line. There must be a CR
// before `end`, at which the scan of the name stops.
errc read_field(const char*& position, const char* end, field_view& field) noexcept {
  const char* const name = position;
  position = skip_letters(position, end);
  while (is(in_token, *position)) ++position;  // the loop stops at the CR at the latest
  if (position == name || *position != ':') return errc::bad_field;
  field.name = between(name, position);
  ++position;
  while (is_blank(*position)) ++position;
  const char* const value = position;
  position = find_control(position, end);
  while (position != end && *position == '\t') position = find_control(position + 1, end);
  if (position == end || *position == '\n') return errc::bare_line_end;
  if (*position != '\r') return errc::bad_field;
  if (end - position < 2 || position[1] != '\n') return errc::bare_line_end;
  const char* last = position;
  while (last != value && is_blank(last[-1])) --last;
  field.value = between(value, last);
  position += 2;
  return no_error;
}

// Parses all field lines of `section`, which must end in an empty line, and passes each to `note`.
template <class Note>
errc read_fields(std::string_view section, const head_limits& limits, Note note) {
  const char* position = section.data();
  const char* const end = position + section.size();
  for (std::size_t count = 0;; ++count) {
    if (end - position >= 2 && position[0] == '\r' && position[1] == '\n') {
      return end - position == 2 ? no_error : errc::bad_field;
    }
    if (count == limits.field_count) return errc::fields_too_large;
    field_view field;
    const errc error = read_field(position, end, field);
    if (error != no_error) return error;
    note(field);
  }
}

// Parses an HTTP-version (RFC 9112 2.3), whose name is case-sensitive. A minor version above 1
// counts as 1, the highest that the parser supports (RFC 9110 2.5).
errc read_version(std::string_view text, std::uint8_t& minor) noexcept {
  if (text.size() != 8 || !text.starts_with("HTTP/") || !is_digit(text[5]) || text[6] != '.' ||
      !is_digit(text[7])) {
    return errc::bad_start_line;
  }
  if (text[5] != '1') return errc::unsupported_version;
  minor = text[7] == '0' ? 0 : 1;
  return no_error;
}

// Whether `target` is the absolute-form (RFC 9112 3.2.2) of an http or https URL, whose scheme may
// be in any case. A server cannot serve other schemes, and a proxy that forwards them speaks
// another protocol.
bool is_absolute_form(std::string_view target) noexcept {
  const std::size_t colon = target.find("://");
  if (colon == std::string_view::npos) return false;
  const std::string_view scheme = target.substr(0, colon);
  if (!equals_lower(scheme, "http") && !equals_lower(scheme, "https")) return false;
  const std::string_view rest = target.substr(colon + 3);
  const std::string_view authority = rest.substr(0, rest.find_first_of("/?"));
  return !authority.empty() && is_host_field(authority);
}

errc check_target(std::string_view method, std::string_view target) noexcept {
  if (method == "CONNECT") return is_authority_form(target) ? no_error : errc::bad_target;
  if (target.front() == '/') return no_error;
  if (target == "*") return method == "OPTIONS" ? no_error : errc::bad_target;
  return is_absolute_form(target) ? no_error : errc::bad_target;
}

// Parses a request-line (RFC 9112 3). Requires single spaces, although a lenient recipient may
// accept other whitespace.
errc read_request_line(std::string_view line, request_head& result) noexcept {
  const char* position = line.data();
  const char* const end = position + line.size();
  while (position != end && is(in_token, *position)) ++position;
  if (position == line.data() || position == end || *position != ' ') return errc::bad_start_line;
  result.method = between(line.data(), position);
  const char* const target = ++position;
  while (position != end && is(in_target, *position)) ++position;
  if (position == target || position == end) return errc::bad_start_line;
  if (*position != ' ') return errc::bad_target;
  result.target = between(target, position);
  const errc error = read_version(between(position + 1, end), result.framing.minor_version);
  if (error != no_error) return error;
  if (result.method.size() > max_method_size) return errc::bad_method;
  return check_target(result.method, result.target);
}

// Parses a status-line (RFC 9112 4). Accepts a missing space after the status if there is no
// reason, because many servers omit the space. Accepts the invalid statuses above 599, which a
// client has to treat as server errors (RFC 9110 15).
errc read_status_line(std::string_view line, response_head& result) noexcept {
  constexpr std::size_t without_reason = 12;
  if (line.size() < without_reason || line[8] != ' ') return errc::bad_start_line;
  const errc error = read_version(line.substr(0, 8), result.framing.minor_version);
  if (error != no_error) return error;
  const bool is_number =
      line[9] != '0' && is_digit(line[9]) && is_digit(line[10]) && is_digit(line[11]);
  if (!is_number) return errc::bad_start_line;
  if (line.size() > without_reason && line[without_reason] != ' ') return errc::bad_start_line;
  result.status =
      static_cast<unsigned>((line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0'));
  result.reason = line.substr(std::min(line.size(), without_reason + 1));
  return std::ranges::all_of(result.reason, is_value_character) ? no_error : errc::bad_start_line;
}

// Parses a Content-Length (RFC 9110 8.6) of digits only. Refuses numbers that off_t cannot hold.
errc read_length(std::string_view text, std::uint64_t& length) noexcept {
  if (text.empty()) return errc::bad_length;
  constexpr std::uint64_t max_length = ~std::uint64_t{0} >> 1U;
  std::uint64_t number = 0;
  for (const char character : text) {
    if (!is_digit(character)) return errc::bad_length;
    const auto digit = static_cast<unsigned>(character - '0');
    if (number > (max_length - digit) / 10) return errc::bad_length;
    number = number * 10 + digit;
  }
  length = number;
  return no_error;
}

// Returns the error for a Transfer-Encoding other than `chunked` alone. A request whose codings do
// not end in `chunked` has no known length (RFC 9112 6.3: 400, not 501).
errc refuse_codings(std::string_view list) noexcept {
  if (list.ends_with(',')) return errc::bad_transfer_coding;
  bool is_chunked = false;
  do {
    const std::string_view element = take_element(list);
    const std::string_view name = element.substr(0, element.find_first_of("; \t"));
    const bool is_malformed = name.empty() || !all_are(in_token, name);
    if (is_malformed || is_chunked) return errc::bad_transfer_coding;
    if (equals_lower(name, "chunked")) {
      if (name.size() != element.size()) return errc::bad_transfer_coding;
      is_chunked = true;
    } else if (name.size() != element.size() &&
               !trim(element.substr(name.size())).starts_with(';')) {
      return errc::bad_transfer_coding;
    }
  } while (!list.empty());
  return is_chunked ? errc::unknown_transfer_coding : errc::bad_transfer_coding;
}

// Determines the framing from the fields (RFC 9112 6.3), as if the message could have a body.
errc read_framing(const framing_fields& fields, message_framing& framing) noexcept {
  framing.keep_alive = !fields.close && (framing.minor_version != 0 || fields.keep_alive);
  framing.upgrade = fields.upgrade_option && fields.upgrade_field && framing.minor_version != 0;
  framing.body = body_kind::none;
  framing.length = 0;
  if (fields.codings == 0 && fields.lengths == 0) return no_error;
  if (fields.codings != 0) {
    if (fields.lengths != 0) return errc::ambiguous_length;
    if (framing.minor_version == 0 || fields.codings > 1) return errc::bad_transfer_coding;
    if (!equals_lower(fields.coding, "chunked")) return refuse_codings(fields.coding);
    framing.body = body_kind::chunked;
    return no_error;
  }
  if (fields.lengths > 1) return errc::bad_length;
  framing.body = body_kind::length;
  return read_length(fields.length, framing.length);
}

errc check_request_fields(const framing_fields& fields, request_head& result) noexcept {
  if (fields.hosts != 1) {
    if (fields.hosts != 0 || result.framing.minor_version != 0) return errc::bad_host;
  } else if (!fields.host.empty() && !is_host_field(fields.host)) {
    return errc::bad_host;
  }
  result.host = fields.host;
  if (const errc error = read_framing(fields, result.framing); error != no_error) return error;
  const bool has_body = result.framing.body == body_kind::chunked || result.framing.length != 0;
  if (has_body && result.method == "CONNECT") return errc::ambiguous_length;
  if (fields.other_expectation) return errc::unknown_expectation;
  result.expect_continue = fields.expect_continue && result.framing.minor_version != 0;
  return no_error;
}

// Replaces each obs-fold between field lines by blanks, as a client must (RFC 9112 5.2). Leaves a
// fold before the first field line, so that read_field() refuses it.
void unfold(std::span<char> fields) noexcept {
  for (std::size_t position = 1; position + 2 < fields.size(); ++position) {
    if (fields[position] != '\r' || fields[position + 1] != '\n' || !is_blank(fields[position + 2]))
      continue;
    fields[position] = ' ';
    fields[position + 1] = ' ';
  }
}

// Moves the start line from the beginning of `head` to `line`. Errors: target_too_long;
// bare_line_end for a head that no head_scanner has checked.
errc take_start_line(std::string_view& head, const head_limits& limits,
                     std::string_view& line) noexcept {
  const std::size_t size = head.find('\r');
  if (size == std::string_view::npos || size + 1 == head.size() || head[size + 1] != '\n') {
    return errc::bare_line_end;
  }
  if (size + 2 > limits.start_line) return errc::target_too_long;
  line = head.substr(0, size);
  head.remove_prefix(size + 2);
  return head.ends_with("\r\n") ? no_error : errc::bare_line_end;
}

// Fields that are ignored in a trailer section, because they could change the framing, routing,
// authentication or meaning of the message before it (RFC 9110 6.5.1).
constexpr std::array<std::string_view, 40> never_in_trailers{
    "age",
    "authorization",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "cookie",
    "date",
    "expect",
    "expires",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "keep-alive",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authentication-info",
    "proxy-authorization",
    "proxy-connection",
    "range",
    "retry-after",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
};

}  // namespace

errc parse_request_head(std::string_view head, const head_limits& limits, request_head& result) {
  result.fields.clear();
  result.expect_continue = false;
  if (head.starts_with("\r\n")) head.remove_prefix(2);
  std::string_view line;
  errc error = take_start_line(head, limits, line);
  if (error != no_error) return error;
  error = read_request_line(line, result);
  if (error != no_error) return error;
  framing_fields fields;
  error = read_fields(head, limits, [&](const field_view& field) {
    fields.note(field.name, field.value);
    result.fields.push_back(field);
  });
  return error == no_error ? check_request_fields(fields, result) : error;
}

errc parse_response_head(std::span<char> bytes, const head_limits& limits,
                         std::string_view request_method, response_head& result) {
  result.fields.clear();
  std::string_view head(bytes.data(), bytes.size());
  std::string_view line;
  errc error = take_start_line(head, limits, line);
  if (error != no_error) return error;
  error = read_status_line(line, result);
  if (error != no_error) return error;
  unfold(bytes.last(head.size()));
  result.fields.reserve(usual_fields);
  framing_fields fields;
  error = read_fields(head, limits, [&](const field_view& field) {
    fields.note(field.name, field.value);
    result.fields.push_back(field);
  });
  if (error != no_error) return error;
  message_framing& framing = result.framing;
  error = read_framing(fields, framing);
  const unsigned status = result.status;
  const bool has_none = status < 200 || status == 204 || status == 304 ||
                        request_method == "HEAD" || (status < 300 && request_method == "CONNECT");
  if (has_none) {
    // The response ends at the empty line, regardless of its fields (RFC 9112 6.3, rule 1). If the
    // fields contradict each other, the peer may have meant another end: the connection is not
    // kept.
    framing.body = body_kind::none;
    framing.length = 0;
    framing.keep_alive = framing.keep_alive && error == no_error;
    return no_error;
  }
  if (error != no_error) return error;
  if (framing.body == body_kind::none) {
    framing.body = body_kind::until_close;
    framing.keep_alive = false;
  }
  return no_error;
}

bool may_be_trailer(std::string_view name) noexcept {
  return std::ranges::none_of(never_in_trailers, [&](std::string_view known_name) {
    return equals_lower(name, known_name);
  });
}

errc parse_trailers(std::string_view section, const head_limits& limits,
                    std::vector<field_view>& fields) {
  if (!section.ends_with("\r\n")) return errc::bare_line_end;
  return read_fields(section, limits, [&](const field_view& field) {
    if (may_be_trailer(field.name)) fields.push_back(field);
  });
}

}  // namespace gyre::http::detail
