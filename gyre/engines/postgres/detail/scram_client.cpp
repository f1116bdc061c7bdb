// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/scram_client.hpp>

#include <gyre/base/detail/base64.hpp>
#include <gyre/base/detail/system_random.hpp>
#include <gyre/engines/postgres/error.hpp>

#include <openssl/crypto.h>

#include <array>
#include <charconv>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

namespace gyre::postgres::detail {
namespace {

[[noreturn]] void refuse_message(const std::string& text) {
  throw std::system_error(make_error_code(errc::bad_message), "SCRAM: " + text);
}

// Removes "NAME=VALUE" from the front of `message`, up to a ',' or the end, and returns VALUE.
std::string_view take_attribute(std::string_view& message, char name) {
  if (message.size() < 2 || message[0] != name || message[1] != '=') {
    refuse_message(std::string("the server's message lacks the attribute ") + name);
  }
  const std::size_t end = message.find(',');
  const std::string_view value = message.substr(2, end == message.npos ? end : end - 2);
  message.remove_prefix(end == message.npos ? message.size() : end + 1);
  return value;
}

std::string encode_channel_input(const std::string& header, std::span<const std::byte> channel) {
  std::vector<std::byte> input;
  for (const char character : header) input.push_back(static_cast<std::byte>(character));
  input.insert(input.end(), channel.begin(), channel.end());
  return gyre::detail::encode_base64(input);
}

std::uint32_t parse_iterations(std::string_view text) {
  std::uint32_t iterations = 0;
  const auto [end, error] = std::from_chars(text.begin(), text.end(), iterations);
  if (error != std::errc() || end != text.end()) refuse_message("the number of iterations is none");
  if (iterations < scram_client::min_iterations || iterations > scram_client::max_iterations) {
    refuse_message("the server asks for " + std::to_string(iterations) + " iterations; between " +
                   std::to_string(scram_client::min_iterations) + " and " +
                   std::to_string(scram_client::max_iterations) + " are accepted");
  }
  return iterations;
}

}  // namespace

std::string make_scram_nonce() {
  std::array<std::byte, 18> random_bytes{};
  gyre::detail::require_random(random_bytes, "gyre::postgres: random numbers");
  return gyre::detail::encode_base64(random_bytes);
}

scram_client::scram_client(credentials& user, std::string nonce, scram_binding binding,
                           std::span<const std::byte> channel)
    : credentials_(user),
      nonce_(std::move(nonce)),
      binding_(binding),
      channel_input_(encode_channel_input(gs2_header(), channel)) {}

std::string scram_client::gs2_header() const {
  switch (binding_) {
    case scram_binding::unsupported: return "n,,";
    case scram_binding::not_offered: return "y,,";
    case scram_binding::used: break;
  }
  return "p=tls-server-end-point,,";
}

// The name is empty here, as the server uses the one in the startup message.
std::string scram_client::first_message() const { return gs2_header() + "n=,r=" + nonce_; }

std::string scram_client::final_message(std::string_view server_first) {
  std::string_view rest = server_first;
  const std::string_view nonce = take_attribute(rest, 'r');
  if (nonce.size() <= nonce_.size() || !nonce.starts_with(nonce_)) {
    refuse_message("the server's nonce does not continue the client's");
  }
  const auto salt = gyre::detail::decode_base64(take_attribute(rest, 's'));
  if (!salt || salt->empty()) refuse_message("the salt is no Base64");
  const scram_keys& keys = credentials_.keys_for(std::as_bytes(std::span(*salt)),
                                                 parse_iterations(take_attribute(rest, 'i')));

  std::string final_text = "c=" + channel_input_ + ",r=" + std::string(nonce);
  const std::string signed_text =
      "n=,r=" + nonce_ + ',' + std::string(server_first) + ',' + final_text;
  const digest signature = hmac_sha256(sha256(keys.client_key), signed_text);
  digest proof = keys.client_key;
  for (std::size_t index = 0; index < proof.size(); ++index) proof[index] ^= signature[index];
  server_signature_ = hmac_sha256(keys.server_key, signed_text);
  return final_text + ",p=" + gyre::detail::encode_base64(proof);
}

void scram_client::verify(std::string_view server_final) const {
  if (server_final.starts_with("e=")) {
    refuse_message("the server ends the exchange: " + std::string(server_final.substr(2)));
  }
  std::string_view rest = server_final;
  const auto signature = gyre::detail::decode_base64(take_attribute(rest, 'v'));
  if (!signature || signature->size() != server_signature_.size() ||
      CRYPTO_memcmp(signature->data(), server_signature_.data(), signature->size()) != 0) {
    throw std::system_error(make_error_code(errc::server_not_authenticated),
                            "SCRAM: the server's signature is wrong");
  }
}

}  // namespace gyre::postgres::detail
