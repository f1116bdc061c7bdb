// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/transport.hpp>

#include <gyre/io/buffer.hpp>
#include <gyre/tls/detail/engine.hpp>
#include <gyre/tls/detail/info.hpp>
#include <gyre/tls/error.hpp>

#include <map>
#include <mutex>
#include <utility>

namespace gyre::tls {
namespace {

constexpr std::size_t record_size = std::size_t{16} << 10;

/// The newest sessions of a client, by host. Each is offered once, so that one whose resumption
/// fails does not fail all later connections. Thread-safety: any thread.
class session_memory {
 public:
  session take(const std::string& host) {
    const std::scoped_lock lock(mutex_);
    const auto found = sessions_.find(host);
    return found == sessions_.end() ? session() : std::move(sessions_.extract(found).mapped());
  }
  void keep(const std::string& host, const session& made) {
    if (!made) return;
    const std::scoped_lock lock(mutex_);
    if (sessions_.size() >= most_hosts && !sessions_.contains(host)) sessions_.clear();
    sessions_.insert_or_assign(host, made);
  }

 private:
  static constexpr std::size_t most_hosts = 64;

  std::mutex mutex_;
  std::map<std::string, session> sessions_;
};

class filter final : public net::transport_filter {
 public:
  filter(const tls_context& context, std::string host, const session& resumed,
         std::shared_ptr<session_memory> memory)
      : machine_(context, std::move(host), resumed, kept_), memory_(std::move(memory)) {}
  ~filter() override {
    if (memory_ == nullptr) return;
    try {
      memory_->keep(machine_.host(), machine_.newest_session());
    } catch (const std::bad_alloc&) {
      memory_.reset();  // the next handshake is a full one
    }
  }

  std::error_code shake_hands(std::span<const std::byte> received, io::buffer& to_send) override {
    machine_.send_to(to_send);
    machine_.feed(received);
    const detail::engine::status now = machine_.handshake();
    if (now == detail::engine::status::failed) return machine_.why().code;
    kept_.append(machine_.unread());
    machine_.feed({});
    return {};
  }
  std::size_t held_by_handshake() const noexcept override { return machine_.held_by_handshake(); }
  bool is_established() const noexcept override { return machine_.established(); }

  std::error_code open(std::span<const std::byte> received, io::buffer& plain,
                       io::buffer& to_send) override {
    using detail::engine;
    io::buffer kept = std::exchange(kept_, io::buffer());
    if (!kept.empty()) {
      kept.append(received);
      received = kept.bytes();
    }
    machine_.send_to(to_send);
    machine_.feed(received);
    engine::status now = engine::status::done;
    while (now == engine::status::done) {
      std::size_t count = 0;
      now = machine_.read(plain.prepare(record_size).first(record_size), count);
      plain.commit(count);
    }
    machine_.feed({});
    return now == engine::status::failed ? machine_.why().code : std::error_code();
  }
  bool has_ended() const noexcept override { return machine_.peer_closed(); }

  bool may_seal() const noexcept override { return machine_.may_write() && !machine_.why().code; }
  std::error_code seal(std::span<const std::byte> plain, io::buffer& to_send) override {
    machine_.send_to(to_send);
    const detail::engine::status now = machine_.write(plain);
    return now == detail::engine::status::failed ? machine_.why().code : std::error_code();
  }
  void seal_end(io::buffer& to_send) override {
    machine_.send_to(to_send);
    machine_.close_notify();
  }
  std::error_code end_of_bytes() const noexcept override { return machine_.end_of_bytes(); }

  const detail::engine& machine() const noexcept { return machine_; }

 private:
  io::buffer kept_;  // received behind the handshake
  detail::engine machine_;
  std::shared_ptr<session_memory> memory_;
};

class transport : public net::transport {
 public:
  explicit transport(tls_context context) : context_(std::move(context)) {}

  std::chrono::nanoseconds handshake_timeout() const noexcept override {
    return context_.handshake_timeout();
  }
  std::error_code timeout_error() const noexcept override { return errc::handshake_timeout; }

 protected:
  const tls_context& context() const noexcept { return context_; }

 private:
  const tls_context context_;
};

class transport_of_server final : public transport {
 public:
  transport_of_server(tls_context context, handshake_failure_handler handler)
      : transport(std::move(context)), handler_(std::move(handler)) {}

  std::unique_ptr<net::transport_filter> make_filter(std::string_view /*host*/) const override {
    return std::make_unique<filter>(context(), std::string(), session(), nullptr);
  }
  void handshake_failed(const net::endpoint& peer, std::error_code why,
                        const net::transport_filter* failed) const override {
    if (!handler_) return;
    std::string text = why.message();
    if (const auto* const own = dynamic_cast<const filter*>(failed)) {
      const std::string& details = own->machine().why().text;
      if (!details.empty()) text.append(": ").append(details);
    }
    handler_(peer, why, text);
  }

 private:
  const handshake_failure_handler handler_;
};

class transport_of_client final : public transport {
 public:
  transport_of_client(tls_context context, std::string host)
      : transport(std::move(context)),
        host_(std::move(host)),
        memory_(std::make_shared<session_memory>()) {}

  std::unique_ptr<net::transport_filter> make_filter(std::string_view host) const override {
    std::string name = host_.empty() ? std::string(host) : host_;
    if (name.ends_with('.')) name.pop_back();
    const session resumed = memory_->take(name);
    return std::make_unique<filter>(context(), std::move(name), resumed, memory_);
  }
  void handshake_failed(const net::endpoint& /*peer*/, std::error_code /*why*/,
                        const net::transport_filter* /*failed*/) const override {}

 private:
  const std::string host_;
  const std::shared_ptr<session_memory> memory_;
};

[[noreturn]] void refuse(const char* why) { throw std::system_error(errc::bad_configuration, why); }

}  // namespace

std::shared_ptr<const net::transport> server_transport(
    tls_context context, handshake_failure_handler on_handshake_failed) {
  if (!context.is_server()) refuse("gyre::tls::server_transport: needs a server's context");
  return std::make_shared<transport_of_server>(std::move(context), std::move(on_handshake_failed));
}

std::shared_ptr<const net::transport> client_transport(tls_context context, std::string host) {
  if (!context || context.is_server()) {
    refuse("gyre::tls::client_transport: needs a client's context");
  }
  return std::make_shared<transport_of_client>(std::move(context), std::move(host));
}

std::optional<connection_info> info_of(const net::tcp_connection& connection) {
  const auto* const own = dynamic_cast<const filter*>(connection.filter());
  if (own == nullptr) return std::nullopt;
  return detail::info_of(own->machine().native());
}

bool covers_host(const net::tcp_connection& connection, std::string_view host) {
  const auto* const own = dynamic_cast<const filter*>(connection.filter());
  return own == nullptr || own->machine().covers_host(host);
}

}  // namespace gyre::tls
