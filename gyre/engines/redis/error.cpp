// SPDX-License-Identifier: Apache-2.0
#include <gyre/engines/redis/error.hpp>

#include <gyre/base/detail/enum_category.hpp>

#include <array>
#include <utility>

namespace gyre::redis {
namespace {

const char* message_of(errc code) noexcept {
  switch (code) {
    case errc::connection_lost: return "the connection ended before the reply came";
    case errc::no_reply: return "the server did not reply in time";
    case errc::bad_reply: return "the server does not speak the protocol of Redis";
    case errc::reply_too_large: return "the reply is longer than max_reply";
    case errc::needs_session: return "the command needs a connection of its own: use a session";
    case errc::not_supported: return "the server is too old for this";
    case errc::command_refused:
      return "the command would change the protocol: use subscribe() for messages, and "
             "client_options for the login";
    case errc::too_many_sessions: return "too many open sessions: see max_sessions";
    case errc::not_cacheable:
      return "the command does not read one key only: use cached_client::uncached()";
    case errc::null_reply: return "the reply is nil: ask for a std::optional";
    case errc::unexpected_type: return "the reply has another type";
    case errc::out_of_range: return "the number does not fit into the type";
    case errc::transaction_aborted: return "a watched key has changed: nothing was carried out";
    case errc::server: return "the server replied an error";
    case errc::wrong_type: return "the key holds another kind of value";
    case errc::no_script: return "the server does not know the script";
    case errc::busy_script: return "a script keeps the server busy";
    case errc::busy_key: return "the key exists";
    case errc::busy_group: return "the consumer group exists";
    case errc::no_group: return "there is no such consumer group";
    case errc::no_auth: return "the server demands a password";
    case errc::wrong_password: return "the user or the password is wrong";
    case errc::no_permission: return "the user may not do that";
    case errc::loading: return "the server is still loading its data";
    case errc::master_down: return "the replica has lost its master";
    case errc::try_again: return "the server asks to try again";
    case errc::cluster_down: return "the cluster is down";
    case errc::read_only: return "the server is a replica, which only reads";
    case errc::out_of_memory: return "the server has reached its maxmemory";
    case errc::exec_aborted: return "the transaction was refused, as one of its commands was";
    case errc::moved: return "the server is a part of a cluster, which is not supported";
    case errc::no_replicas: return "too few replicas take part";
    case errc::misconfigured: return "the server cannot persist its data";
  }
  return "unknown error";
}

std::errc condition_of(errc code) noexcept {
  switch (code) {
    case errc::connection_lost: return std::errc::connection_reset;
    case errc::no_reply: return std::errc::timed_out;
    case errc::bad_reply: return std::errc::protocol_error;
    case errc::reply_too_large: return std::errc::message_size;
    case errc::not_supported: return std::errc::operation_not_supported;
    case errc::out_of_range: return std::errc::result_out_of_range;
    case errc::no_auth:
    case errc::wrong_password:
    case errc::no_permission: return std::errc::permission_denied;
    case errc::too_many_sessions:
    case errc::loading:
    case errc::master_down:
    case errc::try_again:
    case errc::cluster_down: return std::errc::resource_unavailable_try_again;
    case errc::read_only: return std::errc::read_only_file_system;
    default: return {};
  }
}

constexpr std::array<std::pair<std::string_view, errc>, 20> server_kinds = {{
    {"WRONGTYPE", errc::wrong_type},
    {"NOSCRIPT", errc::no_script},
    {"BUSY", errc::busy_script},
    {"BUSYKEY", errc::busy_key},
    {"BUSYGROUP", errc::busy_group},
    {"NOGROUP", errc::no_group},
    {"NOAUTH", errc::no_auth},
    {"WRONGPASS", errc::wrong_password},
    {"NOPERM", errc::no_permission},
    {"LOADING", errc::loading},
    {"MASTERDOWN", errc::master_down},
    {"TRYAGAIN", errc::try_again},
    {"CLUSTERDOWN", errc::cluster_down},
    {"READONLY", errc::read_only},
    {"OOM", errc::out_of_memory},
    {"EXECABORT", errc::exec_aborted},
    {"MOVED", errc::moved},
    {"ASK", errc::moved},
    {"NOREPLICAS", errc::no_replicas},
    {"MISCONF", errc::misconfigured},
}};

}  // namespace

const std::error_category& redis_category() noexcept {
  static const gyre::detail::enum_category<errc> category("gyre.redis", message_of, condition_of);
  return category;
}

std::error_code make_error_code(errc code) noexcept {
  return {static_cast<int>(code), redis_category()};
}

server_error::server_error(std::string text)
    : std::system_error(make_error_code(detail::code_of(text)), text), text_(std::move(text)) {}

namespace detail {

errc code_of(std::string_view text) noexcept {
  const std::string_view kind = text.substr(0, text.find(' '));
  for (const auto& [name, code] : server_kinds) {
    if (name == kind) return code;
  }
  return errc::server;
}

}  // namespace detail

}  // namespace gyre::redis
