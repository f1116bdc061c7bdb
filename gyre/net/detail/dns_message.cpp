// SPDX-License-Identifier: Apache-2.0
#include <gyre/net/detail/dns_message.hpp>

#include <gyre/base/detail/splitmix64.hpp>
#include <gyre/net/detail/errors.hpp>
#include <gyre/net/resolve_error.hpp>

#include <ares.h>

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <memory>
#include <random>
#include <ranges>
#include <tuple>

namespace gyre::net::detail {
namespace {

constexpr std::size_t header_size = 12;
constexpr std::size_t min_record_size = 12;  // a name of one byte, the fixed fields, and no data

/// Reads a message without ever leaving its bounds.
class message_reader {
 public:
  explicit message_reader(dns_message message) noexcept : rest_(message) {}

  bool failed() const noexcept { return has_failed_; }

  dns_message bytes(std::size_t count) noexcept {
    if (has_failed_ || rest_.size() < count) {
      has_failed_ = true;
      return {};
    }
    const dns_message part = rest_.first(count);
    rest_ = rest_.subspan(count);
    return part;
  }
  std::uint32_t number(std::size_t size) noexcept {
    std::uint32_t value = 0;
    for (const unsigned char byte : bytes(size)) value = value << 8 | byte;
    return value;
  }
  // Skips a name. A compression pointer is not followed, because c-ares compares the names.
  void skip_name() noexcept {
    while (!has_failed_) {
      const std::uint32_t length = number(1);
      if (length == 0) return;
      if (length >= 0xc0) {
        bytes(1);
        return;
      }
      if (length > 63) has_failed_ = true;
      bytes(length);
    }
  }

 private:
  dns_message rest_;
  bool has_failed_ = false;
};

struct record_header {
  std::uint32_t type;
  std::chrono::seconds ttl;
  dns_message data;
};

record_header next_record(message_reader& reader) noexcept {
  reader.skip_name();
  record_header header{};
  header.type = reader.number(2);
  reader.number(2);  // the class, which is always Internet
  const std::uint32_t ttl = reader.number(4);
  // A TTL with the highest bit set counts as zero (RFC 2181, section 8).
  header.ttl = std::chrono::seconds(ttl >> 31 != 0 ? 0 : ttl);
  header.data = reader.bytes(reader.number(2));
  return header;
}

// Returns the TTL of a negative answer, from its SOA record.
std::chrono::seconds negative_ttl(const record_header& soa) noexcept {
  message_reader data(soa.data);
  data.skip_name();
  data.skip_name();
  data.bytes(16);
  const std::uint32_t minimum = data.number(4);
  if (data.failed() || minimum >> 31 != 0) return std::chrono::seconds(0);
  return std::min(soa.ttl, std::chrono::seconds(minimum));
}

// Returns the number of answers in the header, but at most as many as fit into the message.
std::size_t max_answers(dns_message message) noexcept {
  if (message.size() < header_size) return 0;
  const std::size_t count = message[6] * 256u + message[7];
  return std::min(count, (message.size() - header_size) / min_record_size);
}

// Returns the addresses that `Parse` decodes; `Address` is c-ares's type for an address and its
// TTL.
template <class Bytes, class Address, auto Parse, auto Member>
address_result parse_addresses(dns_message message) {
  std::vector<Address> room(std::max<std::size_t>(max_answers(message), 1));
  int count = static_cast<int>(room.size());
  const int status =
      Parse(message.data(), static_cast<int>(message.size()), nullptr, room.data(), &count);
  if (status != ARES_SUCCESS) return std::unexpected(dns_error(status));
  if (count == 0) return std::unexpected(make_error_code(resolve_errc::no_data));
  std::vector<ip_address> addresses;
  addresses.reserve(static_cast<std::size_t>(count));
  for (const Address& entry : std::span(room).first(static_cast<std::size_t>(count))) {
    addresses.emplace_back(std::bit_cast<Bytes>(entry.*Member));
  }
  return addresses;
}

}  // namespace

answer_ttl ttl_of(dns_message message) noexcept {
  constexpr std::uint32_t cut_off = 0x200, name_error = 3, soa = 6;
  message_reader reader(message);
  reader.number(2);
  const std::uint32_t flags = reader.number(2);
  const std::uint32_t questions = reader.number(2);
  const std::uint32_t answers = reader.number(2);
  const std::uint32_t authorities = reader.number(2);
  reader.number(2);
  const std::uint32_t code = flags & 0xf;
  if (reader.failed() || questions != 1 || (flags & cut_off) != 0) return {};
  if (code != 0 && code != name_error) return {};
  reader.skip_name();
  const std::uint32_t type = reader.number(2);
  reader.number(2);

  auto shortest_ttl = std::chrono::seconds::max();
  bool has_answer = false;
  for (std::uint32_t i = 0; i < answers && !reader.failed(); ++i) {
    const record_header record = next_record(reader);
    shortest_ttl = std::min(shortest_ttl, record.ttl);
    has_answer = has_answer || record.type == type;
  }
  if (has_answer && code == 0) {
    return {.time = reader.failed() ? std::chrono::seconds(0) : shortest_ttl, .negative = false};
  }
  auto ttl = std::chrono::seconds(0);
  for (std::uint32_t i = 0; i < authorities && !reader.failed(); ++i) {
    const record_header record = next_record(reader);
    if (record.type == soa) ttl = std::min(shortest_ttl, negative_ttl(record));
  }
  return {.time = reader.failed() ? std::chrono::seconds(0) : ttl, .negative = true};
}

std::error_code dns_error(int status) {
  switch (status) {
    case ARES_ENOTFOUND:
    case ARES_ENONAME: return resolve_errc::host_not_found;
    case ARES_ENODATA: return resolve_errc::no_data;
    case ARES_ETIMEOUT: return resolve_errc::timed_out;
    case ARES_EREFUSED: return resolve_errc::refused;
    case ARES_EBADNAME:
    case ARES_EBADQUERY:
    case ARES_EBADSTR: return resolve_errc::bad_name;
    case ARES_EBADRESP: return resolve_errc::bad_response;
    case ARES_ECONNREFUSED: return resolve_errc::no_server;
    case ARES_ENOMEM: return no_memory();
    case ARES_ECANCELLED:
    case ARES_EDESTRUCTION: return cancelled();
    default: return resolve_errc::server_failure;
  }
}

address_result decode_addresses(record_type type, dns_message message) {
  if (type == record_type::a) {
    return parse_addresses<ip_address::v4_bytes, ares_addrttl, &ares_parse_a_reply,
                           &ares_addrttl::ipaddr>(message);
  }
  return parse_addresses<ip_address::v6_bytes, ares_addr6ttl, &ares_parse_aaaa_reply,
                         &ares_addr6ttl::ip6addr>(message);
}

void sort_srv_records(std::vector<srv_record>& records,
                      move_only_function<std::uint32_t(std::uint32_t)> random_below) {
  // Records without weight come first, which gives them a small chance (RFC 2782); the others stay
  // in their order.
  std::vector<std::tuple<unsigned, bool, std::size_t>> ranks;
  for (const srv_record& record : records) {
    ranks.emplace_back(record.priority, record.weight != 0, ranks.size());
  }
  std::ranges::sort(ranks);
  std::vector<srv_record> result;
  result.reserve(records.size());
  for (const auto& rank : ranks) result.push_back(std::move(records[std::get<2>(rank)]));
  records = std::move(result);
  for (auto first = records.begin(); first != records.end(); ++first) {
    const auto end = std::find_if(first, records.end(), [&](const srv_record& record) {
      return record.priority != first->priority;
    });
    std::uint32_t sum = 0;
    for (auto record = first; record != end; ++record) sum += record->weight;
    const std::uint32_t threshold = random_below(sum + 1);
    std::uint32_t weight_sum = 0;
    auto selection = first;
    while ((weight_sum += selection->weight) < threshold) ++selection;
    std::rotate(first, selection, std::next(selection));
  }
}

srv_result decode_srv(dns_message message) {
  ares_srv_reply* cares_reply = nullptr;
  const int status =
      ares_parse_srv_reply(message.data(), static_cast<int>(message.size()), &cares_reply);
  const std::unique_ptr<ares_srv_reply, decltype(&ares_free_data)> owner(cares_reply,
                                                                         &ares_free_data);
  if (status != ARES_SUCCESS) return std::unexpected(dns_error(status));
  std::vector<srv_record> records;
  for (const auto* part = cares_reply; part != nullptr; part = part->next) {
    const std::string_view target = part->host;
    // The root as the target means that the service is not available (RFC 2782).
    if (target.empty() || target == ".") continue;
    records.push_back({.target = std::string(target),
                       .port = part->port,
                       .priority = part->priority,
                       .weight = part->weight});
  }
  if (records.empty()) return std::unexpected(make_error_code(resolve_errc::no_data));
  std::minstd_rand random(static_cast<std::uint32_t>(gyre::detail::random_seed()));
  sort_srv_records(records, [&](std::uint32_t limit) {
    return std::uniform_int_distribution<std::uint32_t>(0, limit - 1)(random);
  });
  return records;
}

text_result decode_texts(record_type type, dns_message message) {
  const int size = static_cast<int>(message.size());
  std::vector<std::string> texts;
  int status = ARES_SUCCESS;
  if (type == record_type::txt) {
    ares_txt_ext* cares_reply = nullptr;
    status = ares_parse_txt_reply_ext(message.data(), size, &cares_reply);
    const std::unique_ptr<ares_txt_ext, decltype(&ares_free_data)> owner(cares_reply,
                                                                         &ares_free_data);
    for (const auto* part = cares_reply; part != nullptr; part = part->next) {
      if (part->record_start != 0 || texts.empty()) texts.emplace_back();
      texts.back().append(reinterpret_cast<const char*>(part->txt), part->length);
    }
  } else {
    hostent* host_entry = nullptr;
    status = ares_parse_ptr_reply(message.data(), size, nullptr, 0, AF_INET, &host_entry);
    const std::unique_ptr<hostent, decltype(&ares_free_hostent)> owner(host_entry,
                                                                       &ares_free_hostent);
    if (status == ARES_SUCCESS) {
      for (char** alias = host_entry->h_aliases; *alias != nullptr; ++alias)
        texts.emplace_back(*alias);
      if (texts.empty() && host_entry->h_name != nullptr) texts.emplace_back(host_entry->h_name);
    }
  }
  if (status != ARES_SUCCESS) return std::unexpected(dns_error(status));
  if (texts.empty()) return std::unexpected(make_error_code(resolve_errc::no_data));
  return texts;
}

std::string reverse_name(const ip_address& address) {
  constexpr std::string_view digits = "0123456789abcdef";
  const ip_address unmapped_address = address.unmapped();
  std::string name;
  for (const std::uint8_t byte : unmapped_address.bytes() | std::views::reverse) {
    if (unmapped_address.is_v4()) {
      (name += std::to_string(byte)) += '.';
    } else {
      for (const int digit : {byte & 15, byte >> 4}) {
        (name += digits[static_cast<std::size_t>(digit)]) += '.';
      }
    }
  }
  return name + (unmapped_address.is_v4() ? "in-addr.arpa" : "ip6.arpa");
}

}  // namespace gyre::net::detail
