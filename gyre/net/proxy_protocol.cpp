// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/proxy_protocol.hpp>

#include <gyre/base/detail/parse_decimal.hpp>
#include <gyre/io/error.hpp>
#include <gyre/io/received.hpp>
#include <gyre/net/detail/errors.hpp>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>

namespace gyre::net {
namespace {

using detail::failure;
using std::string_view_literals::operator""sv;

constexpr std::string_view signature_1 = "PROXY "sv;
constexpr std::string_view signature_2 = "\r\n\r\n\0\r\nQUIT\n"sv;
constexpr std::size_t max_version_1_size = 107;
// The signature, the version and command, the family, the length.
constexpr std::size_t fixed_2 = 16;
constexpr std::size_t path_size = 108;  // the size in sockaddr_un
constexpr std::uint8_t type_crc32c = 0x03;

std::unexpected<std::error_code> nonsense() { return failure(io::errc::bad_proxy_header); }

bool begins_alike(std::string_view text, std::string_view signature) {
  const std::size_t common = std::min(text.size(), signature.size());
  return text.substr(0, common) == signature.substr(0, common);
}

std::size_t decode_number(std::string_view bytes) {
  std::size_t number = 0;
  for (const char byte : bytes) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

// Takes a word of a version 1 header, whose words have one space between them.
std::string_view take_word(std::string_view& line) { return detail::take_until(line, " "); }

std::optional<std::uint16_t> parse_port(std::string_view text) {
  if (text.size() > 1 && text.front() == '0') return std::nullopt;
  return gyre::detail::parse_decimal<std::uint16_t>(text);
}

parsed_proxy_header parse_line(std::string_view line, std::size_t size) {
  proxy_header header{.size = size};
  line.remove_prefix(signature_1.size());
  // A space at the end would begin another word, which take_word() does not show.
  const bool ends_in_word = !line.empty() && line.back() != ' ';
  const std::string_view family = take_word(line);
  if (family == "UNKNOWN") return header;
  if (!ends_in_word || (family != "TCP4" && family != "TCP6")) return nonsense();
  const std::string_view source = take_word(line), destination = take_word(line);
  const auto source_port = parse_port(take_word(line));
  const auto destination_port = parse_port(take_word(line));
  if (!source_port || !destination_port || !line.empty()) return nonsense();
  if (source.contains('%') || destination.contains('%')) return nonsense();
  const auto source_address = ip_address::parse(source),
             destination_address = ip_address::parse(destination);
  const bool is_v4 = family == "TCP4";
  if (!source_address || !destination_address || source_address->is_v4() != is_v4 ||
      destination_address->is_v4() != is_v4) {
    return nonsense();
  }
  header.source = endpoint(*source_address, *source_port);
  header.destination = endpoint(*destination_address, *destination_port);
  return header;
}

parsed_proxy_header parse_version_1(std::string_view text, std::size_t limit) {
  limit = std::min(limit, max_version_1_size);
  const std::size_t end = text.substr(0, limit).find('\n');
  if (end == std::string_view::npos) {
    if (text.size() >= limit) return failure(io::errc::proxy_header_too_long);
    return std::nullopt;
  }
  const std::string_view line = text.substr(0, end);
  if (!line.ends_with('\r') || line.find('\r') != line.size() - 1) return nonsense();
  return parse_line(line.substr(0, line.size() - 1), end + 1);
}

template <class Bytes>
endpoint ip_endpoint(std::string_view address, std::string_view port) {
  Bytes bytes;
  std::memcpy(bytes.data(), address.data(), bytes.size());
  return {ip_address(bytes), static_cast<std::uint16_t>(decode_number(port))};
}

std::optional<endpoint> unix_endpoint(std::string_view path) {
  if (path.front() != '\0') {
    try {
      return endpoint::unix_path(path.substr(0, path.find('\0')));
    } catch (const std::system_error&) {  // a path that is too long
      return std::nullopt;
    }
  }
  path.remove_prefix(1);
  const std::size_t last = path.find_last_not_of('\0');
  if (last == std::string_view::npos) return endpoint::unix_unnamed();
  return endpoint::unix_abstract(path.substr(0, last + 1));
}

std::optional<endpoint> parse_endpoint(unsigned family, std::string_view address,
                                       std::string_view port) {
  if (family == 1) return ip_endpoint<ip_address::v4_bytes>(address, port);
  if (family == 2) return ip_endpoint<ip_address::v6_bytes>(address, port);
  return unix_endpoint(address);
}

// Removes the addresses from the front of `rest`. Returns false if they make no sense.
bool take_addresses(unsigned family, std::string_view& rest, proxy_header& header) {
  const std::size_t size = family == 1 ? 4 : family == 2 ? 16 : path_size;
  const std::size_t port_size = family == 3 ? 0 : 2;
  if (rest.size() < 2 * (size + port_size)) return false;
  const auto take = [&rest](std::size_t count) {
    const std::string_view part = rest.substr(0, count);
    rest.remove_prefix(count);
    return part;
  };
  const std::string_view addresses = take(2 * size), ports = take(2 * port_size);
  const auto source = parse_endpoint(family, addresses.substr(0, size), ports.substr(0, port_size));
  const auto destination = parse_endpoint(family, addresses.substr(size), ports.substr(port_size));
  if (!source || !destination) return false;
  header.source = *source;
  header.destination = *destination;
  return true;
}

// Computes the CRC with Castagnoli's polynomial bit by bit: headers are short, and few have a
// checksum.
std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82F6'3B78u : 0);
  }
  return ~crc;
}

// Whether the checksum at `position` is right. It is computed as if its own bytes were zero.
bool has_checksum(std::string_view header_bytes, std::size_t position, std::size_t checksum) {
  std::string copy(header_bytes);
  copy.replace(position, 4, 4, '\0');
  return crc32c(copy) == checksum;
}

bool take_values(std::string_view header_bytes, std::string_view unread_values,
                 proxy_header& header) {
  while (!unread_values.empty()) {
    if (unread_values.size() < 3) return false;
    const auto type = static_cast<std::uint8_t>(unread_values[0]);
    const std::size_t size = decode_number(unread_values.substr(1, 2));
    unread_values.remove_prefix(3);
    if (unread_values.size() < size) return false;
    const std::string_view bytes = unread_values.substr(0, size);
    unread_values.remove_prefix(size);
    if (type == type_crc32c) {
      const auto position = static_cast<std::size_t>(bytes.data() - header_bytes.data());
      if (size != 4 || !has_checksum(header_bytes, position, decode_number(bytes))) return false;
    }
    header.values.push_back({.type = type, .bytes = std::string(bytes)});
  }
  return true;
}

parsed_proxy_header parse_version_2(std::string_view text, std::size_t limit) {
  if (text.size() < fixed_2) return std::nullopt;
  const auto version_and_command = static_cast<std::uint8_t>(text[12]);
  const auto family_and_type = static_cast<std::uint8_t>(text[13]);
  const std::size_t size = fixed_2 + decode_number(text.substr(14, 2));
  const bool is_local = version_and_command == 0x20;
  if (!is_local && version_and_command != 0x21) return nonsense();
  if (size > limit) return failure(io::errc::proxy_header_too_long);
  if (text.size() < size) return std::nullopt;
  proxy_header header{.size = size};
  // The protocol requires to ignore the rest of a local connection's header, and addresses of no
  // family.
  if (is_local || family_and_type == 0) return header;
  const unsigned family = family_and_type >> 4, type = family_and_type & 0xfu;
  if (family < 1 || family > 3 || type < 1 || type > 2) return nonsense();
  const std::string_view header_text = text.substr(0, size);
  std::string_view rest = header_text.substr(fixed_2);
  if (!take_addresses(family, rest, header) || !take_values(header_text, rest, header))
    return nonsense();
  return header;
}

}  // namespace

const std::string* proxy_header::find(std::uint8_t type) const noexcept {
  const auto position = std::ranges::find(values, type, &value::type);
  return position == values.end() ? nullptr : &position->bytes;
}

parsed_proxy_header parse_proxy_header(std::span<const std::byte> bytes, std::size_t limit) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const bool may_be_1 = begins_alike(text, signature_1), may_be_2 = begins_alike(text, signature_2);
  if (!may_be_1 && !may_be_2) return nonsense();
  if (text.size() < signature_1.size()) return std::nullopt;
  return may_be_1 ? parse_version_1(text, limit) : parse_version_2(text, limit);
}

task<proxy_header> read_proxy_header(io::stream& source, io::buffer& buffer, std::size_t limit) {
  for (;;) {
    parsed_proxy_header header = parse_proxy_header(buffer.bytes(), limit);
    if (!header) throw std::system_error(header.error(), "gyre::net::read_proxy_header");
    if (*header) {
      buffer.consume((*header)->size);
      co_return std::move(**header);
    }
    auto receive_task = source.receive();
    const io::received input = co_await std::move(receive_task);
    if (input.empty()) {
      throw std::system_error(make_error_code(io::errc::unexpected_end),
                              "gyre::net::read_proxy_header");
    }
    buffer.append(input.bytes());
  }
}

}  // namespace gyre::net
