// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/postgres/detail/login.hpp>

#include <gyre/engines/postgres/detail/body_reader.hpp>
#include <gyre/engines/postgres/error.hpp>

#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace gyre::postgres::detail {
namespace {

// The kinds of authentication messages, with their numbers in the protocol.
enum class authentication : std::uint32_t {
  ok = 0,
  cleartext = 3,
  md5 = 5,
  sasl = 10,
  sasl_continue = 11,
  sasl_final = 12,
};

constexpr std::string_view scram = "SCRAM-SHA-256";
constexpr std::string_view scram_plus = "SCRAM-SHA-256-PLUS";

}  // namespace

login::login(const connection_options& options, std::vector<std::byte> channel, bool is_encrypted)
    : credentials_(options.login),
      binding_(options.binding),
      allow_md5_(options.allow_md5),
      allow_cleartext_(options.allow_cleartext_password),
      is_encrypted_(is_encrypted),
      channel_(std::move(channel)) {}

void login::require(state due_state) const {
  if (state_ == due_state) return;
  throw_error(errc::bad_message, "gyre::postgres: a message of another step of the login came");
}

const std::string& login::password() const {
  if (!credentials_->password().empty()) return credentials_->password();
  throw_error(errc::invalid_password,
              "gyre::postgres: the server asks for a password, and the options have none");
}

void login::respond(std::span<const std::byte> body, io::buffer& output) {
  body_reader reader(body);
  const auto kind = static_cast<authentication>(reader.read<std::uint32_t>());
  switch (kind) {
    case authentication::ok: return accept();
    case authentication::cleartext:
      require(state::started);
      if (!allow_cleartext_ || binding_ == channel_binding::require) {
        throw_error(errc::unsupported_authentication,
                    "gyre::postgres: the server asks for the password itself, which "
                    "allow_cleartext_password would allow");
      }
      message_writer(output).password(password());
      state_ = state::proving;
      return;
    case authentication::md5: {
      require(state::started);
      if (!allow_md5_ || binding_ == channel_binding::require) {
        throw_error(errc::unsupported_authentication,
                    "gyre::postgres: the server asks for the password by MD5, which allow_md5 "
                    "would allow");
      }
      const std::span<const std::byte> salt = reader.bytes(4);
      if (!reader.is_complete()) throw_error(errc::bad_message, "gyre::postgres: MD5 without salt");
      static_cast<void>(password());
      message_writer(output).password(credentials_->md5_proof(salt));
      state_ = state::proving;
      return;
    }
    case authentication::sasl: require(state::started); return begin_scram(reader.left(), output);
    case authentication::sasl_continue:
      require(state::asked);
      message_writer(output).sasl_response(scram_->final_message(reader.rest()));
      state_ = state::proving_mutually;
      return;
    case authentication::sasl_final:
      require(state::proving_mutually);
      scram_->verify(reader.rest());
      state_ = state::proved;
      return;
  }
  throw_error(errc::unsupported_authentication,
              "gyre::postgres: the server asks for authentication of kind " +
                  std::to_string(static_cast<std::uint32_t>(kind)) +
                  " (Kerberos, GSS or SSPI), which the client does not have");
}

void login::accept() {
  if (state_ == state::asked || state_ == state::proving_mutually) {
    throw_error(errc::server_not_authenticated,
                "gyre::postgres: the server ends SCRAM without a proof that it knows the password");
  }
  if (binding_ == channel_binding::require && !is_bound_) {
    throw_error(errc::channel_binding_missing,
                "gyre::postgres: the server has accepted the login without channel binding");
  }
  if (state_ == state::done) require(state::started);
  state_ = state::done;
}

void login::begin_scram(std::span<const std::byte> mechanisms, io::buffer& output) {
  bool has_scram = false;
  bool has_plus = false;
  body_reader reader(mechanisms);
  for (;;) {
    const std::string_view mechanism = reader.text();
    if (!reader.is_good()) throw_error(errc::bad_message, "gyre::postgres: SASL without its end");
    if (mechanism.empty()) break;
    has_scram = has_scram || mechanism == scram;
    has_plus = has_plus || mechanism == scram_plus;
  }
  const bool can_bind = !channel_.empty() && binding_ != channel_binding::disable;
  is_bound_ = has_plus && can_bind;
  if (has_plus && !is_encrypted_) {
    throw_error(errc::bad_message, "gyre::postgres: channel binding was offered without TLS");
  }
  if (!is_bound_ && binding_ == channel_binding::require) {
    throw_error(errc::channel_binding_missing,
                is_encrypted_ ? "gyre::postgres: the server offers no SCRAM-SHA-256-PLUS"
                              : "gyre::postgres: channel binding needs TLS");
  }
  if (!is_bound_ && !has_scram) {
    throw_error(errc::unsupported_authentication,
                "gyre::postgres: the server offers no SCRAM-SHA-256");
  }
  static_cast<void>(password());
  const scram_binding use = is_bound_  ? scram_binding::used
                            : can_bind ? scram_binding::not_offered
                                       : scram_binding::unsupported;
  scram_.emplace(*credentials_, make_scram_nonce(), use,
                 is_bound_ ? std::span<const std::byte>(channel_) : std::span<const std::byte>());
  message_writer(output).sasl_initial_response(is_bound_ ? scram_plus : scram,
                                               scram_->first_message());
  state_ = state::asked;
}

}  // namespace gyre::postgres::detail
