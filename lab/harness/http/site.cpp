// SPDX-License-Identifier: Apache-2.0
#include <lab/harness/http/site.hpp>

#include <lab/harness/network/socket.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <ctime>

namespace lab::http {

site make_site() {
  site made;
  made.file = network::checked(memfd_create("lab_http_file", 0), "memfd_create");
  made.file_path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(made.file);
  const std::string bytes = make_pattern(file_bytes, 0);
  for (std::string_view rest = bytes; !rest.empty();) {
    const ssize_t written = write(made.file, rest.data(), rest.size());
    rest.remove_prefix(
        static_cast<std::size_t>(network::checked(static_cast<int>(written), "write")));
  }
  return made;
}

std::string make_pattern(std::size_t size, std::size_t seed) {
  std::string pattern(size, '\0');
  auto state = static_cast<std::uint32_t>(seed * 2'654'435'761U + 1);
  for (char& each : pattern) {
    state = state * 1'664'525U + 1'013'904'223U;
    each = static_cast<char>(state >> 24U);
  }
  return pattern;
}

std::string make_json() {
  constexpr std::array<std::string_view, 3> tags{"epoll", "io_uring", "http"};
  constexpr int id = 4711;
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), id);
  std::string text;
  text.reserve(96);
  text += R"({"id":)";
  text.append(digits.data(), end.ptr);
  text += R"(,"name":"gyre","tags":[)";
  for (const std::string_view each : tags) {
    if (text.back() != '[') text += ',';
    text += '"';
    text += each;
    text += '"';
  }
  text += R"(],"ready":true})";
  return text;
}

std::string_view cached_date() {
  static std::time_t rendered = 0;
  static std::array<char, 32> text{};
  const std::time_t now = std::time(nullptr);
  if (now != rendered) {
    std::tm parts{};
    gmtime_r(&now, &parts);
    std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    rendered = now;
  }
  return text.data();
}

}  // namespace lab::http
