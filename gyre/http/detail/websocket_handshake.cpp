// SPDX-License-Identifier: Apache-2.0
#include <gyre/http/detail/websocket_handshake.hpp>

#include <gyre/base/detail/base64.hpp>
#include <gyre/base/detail/duration_check.hpp>
#include <gyre/http/detail/characters.hpp>
#include <gyre/http/detail/field_lookup.hpp>
#include <gyre/http/detail/origin_list.hpp>
#include <gyre/http/detail/parameters.hpp>
#include <gyre/http/url.hpp>

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <new>
#include <stdexcept>

namespace gyre::http::detail {
namespace {

constexpr std::string_view extensions_field = "Sec-WebSocket-Extensions";
constexpr std::string_view subprotocol_field = "Sec-WebSocket-Protocol";
constexpr std::string_view deflate_name = "permessage-deflate";

[[noreturn, gnu::cold]] void refuse_option(const char* owner, const char* reason) {
  throw std::invalid_argument(std::string(owner) + ": " + reason);
}

// The parameters of one permessage-deflate (RFC 7692, 7.1).
struct deflate_parameters {
  bool server_no_context = false;
  bool client_no_context = false;
  std::optional<unsigned> server_bits = {};
  std::optional<unsigned> client_bits = {};  // 0: without a value
};

// One extension of a list: its name, and whether its parameters could be read.
struct extension {
  std::string_view name;
  bool is_valid = true;
  deflate_parameters parameters = {};
};

std::optional<unsigned> window_bits_of(std::string_view text) noexcept {
  if (text.size() == 1 && (text[0] == '8' || text[0] == '9')) {
    return static_cast<unsigned>(text[0] - '0');
  }
  if (text.size() == 2 && text[0] == '1' && text[1] >= '0' && text[1] <= '5') {
    return 10U + static_cast<unsigned>(text[1] - '0');
  }
  return std::nullopt;
}

// Notes a parameter. Returns false for one that is unknown, repeated, or has a wrong value.
bool add_parameter(deflate_parameters& parameters, std::string_view name,
                   std::optional<std::string_view> value) noexcept {
  const auto set_flag = [&](bool& flag) { return !value && !std::exchange(flag, true); };
  if (equals_lower(name, "server_no_context_takeover")) {
    return set_flag(parameters.server_no_context);
  }
  if (equals_lower(name, "client_no_context_takeover")) {
    return set_flag(parameters.client_no_context);
  }
  const bool is_of_server = equals_lower(name, "server_max_window_bits");
  if (!is_of_server && !equals_lower(name, "client_max_window_bits")) return false;
  std::optional<unsigned>& bits = is_of_server ? parameters.server_bits : parameters.client_bits;
  if (bits) return false;
  bits = value ? window_bits_of(*value) : (is_of_server ? std::nullopt : std::optional(0U));
  return bits.has_value();
}

// Removes and returns the first extension of a list. Returns nothing if the list is malformed.
std::optional<extension> take_extension(std::string_view& list) noexcept {
  extension result;
  list = trim(list);
  result.name = take_while(in_token, list);
  if (result.name.empty()) return std::nullopt;
  for (list = trim(list); list.starts_with(';'); list = trim(list)) {
    list = trim(list.substr(1));
    const std::string_view name = take_while(in_token, list);
    if (name.empty()) return std::nullopt;
    std::optional<std::string_view> value;
    list = trim(list);
    if (list.starts_with('=')) {
      list = trim(list.substr(1));
      value = list.starts_with('"') ? take_quoted(list, backslash::escapes)
                                    : std::optional(take_while(in_token, list));
      if (!value || value->empty()) return std::nullopt;
    }
    result.is_valid = add_parameter(result.parameters, name, value) && result.is_valid;
  }
  if (!list.empty() && list.front() != ',') return std::nullopt;
  if (!list.empty()) list = trim(list.substr(1));
  return result;
}

// Calls `use` for each extension of the fields until it returns true. Returns false if a list is
// malformed.
template <class Function>
bool for_each_extension(const field_list& fields, Function use) {
  for (const field& each : fields) {
    if (!equals_ignoring_case(each.name, extensions_field)) continue;
    for (std::string_view list = trim(each.value); !list.empty();) {
      const std::optional<extension> found = take_extension(list);
      if (!found) return false;
      if (use(*found)) return true;
    }
  }
  return true;
}

std::string bits_parameter(std::string_view name, unsigned bits) {
  return "; " + std::string(name) + "=" + std::to_string(bits);
}

std::optional<deflate_reply> accept_offer(const deflate_parameters& offer,
                                          const websocket_compression& compression) {
  deflate_reply reply;
  deflate_agreement& agreement = reply.agreement;
  agreement.window_bits = std::min(compression.window_bits, offer.server_bits.value_or(15U));
  agreement.keeps_context = compression.keeps_context && !offer.server_no_context;
  agreement.keeps_peer_context = compression.keeps_peer_context && !offer.client_no_context;
  reply.extension = deflate_name;
  if (!agreement.keeps_context) reply.extension += "; server_no_context_takeover";
  if (!agreement.keeps_peer_context) reply.extension += "; client_no_context_takeover";
  if (agreement.window_bits != 15 || offer.server_bits) {
    reply.extension += bits_parameter("server_max_window_bits", agreement.window_bits);
  }
  // A client that does not offer to limit its window must not be asked to (RFC 7692, 7.1.2.2).
  if (offer.client_bits) {
    const unsigned highest = *offer.client_bits == 0 ? 15U : *offer.client_bits;
    agreement.peer_window_bits = std::min(compression.peer_window_bits, highest);
    if (agreement.peer_window_bits != 15) {
      reply.extension += bits_parameter("client_max_window_bits", agreement.peer_window_bits);
    }
  }
  return reply;
}

// Returns "host" or "host:port" of an origin, without the scheme's default port, in lower case.
std::optional<std::string> authority_of(std::string_view scheme, std::string_view host) {
  const auto parsed = url::parse(std::string(scheme) + "://" + std::string(host));
  if (!parsed || !parsed->user_info().empty() || parsed->path() != "/" || parsed->has_query()) {
    return std::nullopt;
  }
  return parsed->authority();
}

}  // namespace

void check_compression(const websocket_compression& compression, const char* owner) {
  if (compression.level < 1 || compression.level > 9) {
    refuse_option(owner, "compression.level must be from 1 to 9");
  }
  if (std::min(compression.window_bits, compression.peer_window_bits) < 8 ||
      std::max(compression.window_bits, compression.peer_window_bits) > 15) {
    refuse_option(owner, "the window bits of compression must be from 8 to 15");
  }
}

void check_websocket_options(const websocket_options& options, const char* owner) {
  const std::string name(owner);
  const auto check_limit = [&](duration limit, const char* field) {
    gyre::detail::require_not_negative(limit, name + field);
  };
  check_limit(options.timeouts.keep_alive, ": timeouts.keep_alive");
  check_limit(options.timeouts.pong, ": timeouts.pong");
  check_limit(options.timeouts.message, ": timeouts.message");
  check_limit(options.timeouts.close, ": timeouts.close");
  check_compression(options.compression, owner);
  if (!std::ranges::all_of(options.subprotocols, is_token)) {
    refuse_option(owner, "a subprotocol must be a token");
  }
  check_origins(options.allowed_origins, owner);
}

bool is_websocket_key(std::string_view key) {
  const auto bytes = gyre::detail::decode_base64(key);
  return bytes && bytes->size() == 16;
}

std::string accept_key_of(std::string_view key) {
  // The text after the key is the GUID of RFC 6455, 1.3.
  const std::string text = std::string(key) + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  std::array<unsigned char, 20> digest;
  if (EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha1(), nullptr) != 1) {
    throw std::bad_alloc();
  }
  return gyre::detail::encode_base64(std::as_bytes(std::span(digest)));
}

bool allows_origin(const field_list& fields, std::string_view host,
                   std::span<const std::string> allowed_origins) {
  if (allows_any_origin(allowed_origins) || !fields.contains("Origin")) return true;
  const auto origin = only_field(fields, "Origin");
  if (!origin) return false;
  if (!allowed_origins.empty()) return contains_origin(allowed_origins, *origin);
  const std::size_t colon = origin->find("://");
  if (colon == std::string_view::npos) return false;
  const std::string_view scheme = origin->substr(0, colon);
  const auto origin_authority = authority_of(scheme, origin->substr(colon + 3));
  return origin_authority && origin_authority == authority_of(scheme, host);
}

std::string select_subprotocol(const field_list& request_fields,
                               std::span<const std::string> supported) {
  for (const std::string& each : supported) {
    // Names of subprotocols have cases (RFC 6455, 4.1).
    const bool is_offered = std::ranges::any_of(request_fields, [&](const field& offer) {
      if (!equals_ignoring_case(offer.name, subprotocol_field)) return false;
      for (std::string_view list = offer.value; !list.empty();) {
        if (trim(take_until(list, ',')) == each) return true;
      }
      return false;
    });
    if (is_offered) return each;
  }
  return {};
}

std::optional<deflate_reply> accept_deflate_offer(const field_list& request_fields,
                                                  const websocket_compression& compression) {
  std::optional<deflate_reply> reply;
  for_each_extension(request_fields, [&](const extension& each) {
    if (!equals_lower(each.name, deflate_name) || !each.is_valid) return false;
    reply = accept_offer(each.parameters, compression);
    return reply.has_value();
  });
  return reply;
}

std::string make_deflate_offer(const websocket_compression& compression) {
  std::string offer(deflate_name);
  if (!compression.keeps_peer_context) offer += "; server_no_context_takeover";
  if (!compression.keeps_context) offer += "; client_no_context_takeover";
  if (compression.peer_window_bits != 15) {
    offer += bits_parameter("server_max_window_bits", compression.peer_window_bits);
  }
  return offer += "; client_max_window_bits";
}

std::expected<std::optional<deflate_agreement>, std::string> read_deflate_reply(
    const field_list& response_fields, const websocket_compression& compression, bool was_offered) {
  std::optional<deflate_agreement> agreement;
  const char* fault = nullptr;
  const bool is_list = for_each_extension(response_fields, [&](const extension& each) {
    const deflate_parameters& reply = each.parameters;
    if (!was_offered || !equals_lower(each.name, deflate_name) || agreement) {
      fault = "the server selects an extension that was not offered";
    } else if (!each.is_valid || reply.client_bits == 0U) {
      fault = "the server's parameters of permessage-deflate are malformed";
    } else if ((!compression.keeps_peer_context && !reply.server_no_context) ||
               reply.server_bits.value_or(15U) > compression.peer_window_bits) {
      fault = "the server does not accept the parameters of permessage-deflate";
    } else {
      agreement = {
          .window_bits = std::min(compression.window_bits, reply.client_bits.value_or(15U)),
          .peer_window_bits = reply.server_bits.value_or(15U),
          .keeps_context = compression.keeps_context && !reply.client_no_context,
          .keeps_peer_context = !reply.server_no_context};
    }
    return fault != nullptr;
  });
  if (!is_list) fault = "the server's field Sec-WebSocket-Extensions is malformed";
  if (fault != nullptr) return std::unexpected(std::string(fault));
  return agreement;
}

}  // namespace gyre::http::detail
