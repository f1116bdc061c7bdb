// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/access_log.hpp>

#include <gyre/http/request.hpp>

#include <array>
#include <cstdio>
#include <ctime>
#include <string_view>

namespace gyre::http {

std::string to_combined_log(const access_record& record) {
  const request& request = record.request;
  const auto append_quoted = [](std::string& line, std::string_view text) {
    line += '"';
    for (const char character : text) {
      if (character == '"' || character == '\\') line += '\\';
      const auto byte = static_cast<unsigned char>(character);
      line += byte < 0x20 || byte >= 0x7f ? '?' : character;
    }
    line += '"';
  };
  std::string line = "-";
  if (const auto address = request.client_address()) line = address->to_string();
  const std::time_t time = std::time(nullptr);
  std::tm fields{};
  ::gmtime_r(&time, &fields);
  static constexpr const char* months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                           "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  std::array<char, 64> timestamp;
  std::snprintf(timestamp.data(), timestamp.size(), " - - [%02d/%s/%d:%02d:%02d:%02d +0000] ",
                fields.tm_mday, months[fields.tm_mon], fields.tm_year + 1900, fields.tm_hour,
                fields.tm_min, fields.tm_sec);
  line += timestamp.data();
  std::string request_line(request.method_text());
  request_line += ' ';
  request_line += request.target();
  if (request.major_version() == 2) {
    request_line += " HTTP/2.0";
  } else {
    request_line += request.minor_version() == 0 ? " HTTP/1.0" : " HTTP/1.1";
  }
  append_quoted(line, request_line);
  line += ' ' + std::to_string(to_number(record.status)) + ' ' + std::to_string(record.body_bytes) +
          ' ';
  append_quoted(line, request.field("Referer").value_or("-"));
  line += ' ';
  append_quoted(line, request.field("User-Agent").value_or("-"));
  if (!request.id().empty()) {
    line += ' ';
    append_quoted(line, request.id());
  }
  return line;
}

}  // namespace gyre::http
