// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/transport.hpp>

#include <gyre/tls/detail/engine.hpp>
#include <gyre/tls/detail/info.hpp>
#include <gyre/tls/error.hpp>

#include <map>
#include <mutex>
#include <utility>

namespace gyre::tls {
namespace {

/// The newest session for each host of a client. take() removes the session, so that a session
/// whose resumption fails cannot fail all later connections. Thread-safety: any thread.
class session_memory {
 public:
  session take(const std::string& host) {
    const std::scoped_lock lock(mutex_);
    const auto entry = sessions_.find(host);
    return entry == sessions_.end() ? session() : std::move(sessions_.extract(entry).mapped());
  }
  void keep(const std::string& host, const session& latest_session) {
    if (!latest_session) return;
    const std::scoped_lock lock(mutex_);
    if (sessions_.size() >= max_hosts && !sessions_.contains(host)) sessions_.clear();
    sessions_.insert_or_assign(host, latest_session);
  }

 private:
  static constexpr std::size_t max_hosts = 64;

  std::mutex mutex_;
  std::map<std::string, session> sessions_;
};

/// A client's engine whose destructor stores the newest session for the next connection.
class remembering_engine final : public detail::engine {
 public:
  remembering_engine(const tls_context& context, std::string host, const session& previous_session,
                     std::shared_ptr<session_memory> memory)
      : engine(context, std::move(host), previous_session), memory_(std::move(memory)) {}
  ~remembering_engine() override {
    try {
      memory_->keep(host(), newest_session());
    } catch (const std::bad_alloc&) {
      memory_.reset();  // without memory for the session, the next handshake is a full one
    }
  }

 private:
  std::shared_ptr<session_memory> memory_;
};

class transport_of_server final : public net::transport {
 public:
  transport_of_server(tls_context context, handshake_failure_handler handler)
      : context_(std::move(context)), handler_(std::move(handler)) {}

  std::unique_ptr<net::layer> make_layer(std::string_view /*host*/) const override {
    return std::make_unique<detail::engine>(context_, std::string(), session());
  }
  void handshake_failed(const net::endpoint& peer, std::error_code reason,
                        const net::layer* failed_layer) const override {
    if (!handler_) return;
    std::string text = reason.message();
    if (failed_layer != nullptr && !failed_layer->why().text.empty()) {
      text.append(": ").append(failed_layer->why().text);
    }
    handler_(peer, reason, text);
  }

 private:
  const tls_context context_;
  const handshake_failure_handler handler_;
};

class transport_of_client final : public net::transport {
 public:
  transport_of_client(tls_context context, std::string host)
      : context_(std::move(context)),
        host_(std::move(host)),
        memory_(std::make_shared<session_memory>()) {}

  std::unique_ptr<net::layer> make_layer(std::string_view host) const override {
    std::string name = host_.empty() ? std::string(host) : host_;
    if (name.ends_with('.')) name.pop_back();
    const session previous_session = memory_->take(name);
    return std::make_unique<remembering_engine>(context_, std::move(name), previous_session,
                                                memory_);
  }

 private:
  const tls_context context_;
  const std::string host_;
  const std::shared_ptr<session_memory> memory_;
};

[[noreturn]] void throw_bad_configuration(const char* reason) {
  throw std::system_error(errc::bad_configuration, reason);
}

}  // namespace

std::shared_ptr<const net::transport> server_transport(
    tls_context context, handshake_failure_handler on_handshake_failed) {
  if (!context.is_server())
    throw_bad_configuration("gyre::tls::server_transport: needs a server's context");
  return std::make_shared<transport_of_server>(std::move(context), std::move(on_handshake_failed));
}

std::shared_ptr<const net::transport> client_transport(tls_context context, std::string host) {
  if (!context || context.is_server()) {
    throw_bad_configuration("gyre::tls::client_transport: needs a client's context");
  }
  return std::make_shared<transport_of_client>(std::move(context), std::move(host));
}

std::optional<connection_info> info_of(const net::tcp_connection& connection) {
  const net::layer* const protocol = connection.layer();
  return protocol == nullptr ? std::nullopt : info_of(*protocol);
}

std::optional<connection_info> info_of(const net::layer& secure) {
  const auto* const protocol = dynamic_cast<const detail::engine*>(&secure);
  if (protocol == nullptr) return std::nullopt;
  return detail::info_of(protocol->native());
}

}  // namespace gyre::tls
