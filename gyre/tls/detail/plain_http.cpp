// SPDX-License-Identifier: Apache-2.0
// Requests of HTTP where TLS is spoken: their clients are told so in plain text.
#include <gyre/tls/detail/plain_http.hpp>

#include <gyre/tls/detail/engine.hpp>
#include <gyre/tls/error.hpp>

#include <string_view>

namespace gyre::tls::detail {
namespace {

constexpr std::string_view plain_http_answer =
    "HTTP/1.1 400 Bad Request\r\n"
    "Content-Type: text/plain; charset=utf-8\r\n"
    "Content-Length: 64\r\n"
    "Connection: close\r\n"
    "\r\n"
    "A plain HTTP request came to a port that speaks TLS. Use https.\n";

}  // namespace

// OpenSSL knows only some methods, and takes the others for a wrong version.
void engine::answer_plain_http() {
  if (!loaded_->is_server || established_ || !first_bytes_.are_of_http()) return;
  if (failure_.code != errc::not_tls && failure_.code != errc::plain_http) return;
  failure_.code = errc::plain_http;
  output_->clear();  // an alert would spoil it
  output_->append(plain_http_answer);
}

}  // namespace gyre::tls::detail
