// SPDX-License-Identifier: Apache-2.0
#include <gyre/tls/tls_stream.hpp>

#include <gyre/io/error.hpp>
#include <gyre/net/connect.hpp>
#include <gyre/net/resolver.hpp>
#include <gyre/tls/detail/engine.hpp>
#include <gyre/tls/detail/info.hpp>
#include <gyre/tls/error.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace gyre::tls {
namespace detail {

struct stream_opener {
  static task<tls_stream> open(net::tcp_stream connection, std::unique_ptr<engine> protocol) {
    task<net::layered_stream> work = net::open_layer(std::move(connection), std::move(protocol));
    net::layered_stream inner_stream = co_await std::move(work);
    co_return tls_stream(std::move(inner_stream));
  }
};

}  // namespace detail

namespace {

const detail::engine* engine_of(const tls_stream& stream) noexcept {
  return static_cast<const detail::engine*>(stream.layer());
}

task<tls_stream> accept_tls(net::tcp_stream connection, tls_context context) {
  if (context && !context.is_server()) {
    throw std::system_error(errc::bad_configuration, "gyre::tls::accept: a client's context");
  }
  auto protocol = std::make_unique<detail::engine>(context, std::string(), session());
  task<tls_stream> work = detail::stream_opener::open(std::move(connection), std::move(protocol));
  tls_stream stream = co_await std::move(work);
  co_return stream;
}

task<tls_stream> connect_tls(net::tcp_stream connection, std::string host, tls_context context,
                             session previous_session, std::vector<std::string> protocols) {
  if (context.is_server()) {
    throw std::system_error(errc::bad_configuration, "gyre::tls::connect: a server's context");
  }
  auto protocol = std::make_unique<detail::engine>(context, std::move(host), previous_session);
  protocol->request_protocols(protocols);
  task<tls_stream> work = detail::stream_opener::open(std::move(connection), std::move(protocol));
  tls_stream stream = co_await std::move(work);
  co_return stream;
}

}  // namespace

connection_info tls_stream::info() const {
  const detail::engine* const protocol = engine_of(*this);
  if (protocol == nullptr) throw std::system_error(io::errc::not_open, "gyre::tls::tls_stream");
  return detail::info_of(protocol->native());
}
tls::session tls_stream::session() const {
  const detail::engine* const protocol = engine_of(*this);
  return protocol == nullptr ? tls::session() : protocol->newest_session();
}

task<tls_stream> accept(net::tcp_stream connection, const tls_context& context) {
  return accept_tls(std::move(connection), context);
}
task<tls_stream> connect(net::tcp_stream connection, std::string host, const tls_context& context,
                         const session& previous_session) {
  return connect_tls(std::move(connection), std::move(host), context, previous_session, {});
}

namespace detail {

task<tls_stream> connect_offering(net::tcp_stream connection, std::string host,
                                  const tls_context& context, const session& previous_session,
                                  std::vector<std::string> protocols) {
  return connect_tls(std::move(connection), std::move(host), context, previous_session,
                     std::move(protocols));
}

task<tls_stream> connect_text(net::resolver* names, std::string target, tls_context context,
                              session previous_session) {
  net::host_port server(target);
  std::string host = server.is_name() ? server.host() : server.direct().address().to_string();
  task<net::tcp_stream> connect_task =
      names != nullptr ? net::connect(*names, std::move(server)) : net::connect(std::move(server));
  net::tcp_stream connection = co_await std::move(connect_task);
  task<tls_stream> work = connect_tls(std::move(connection), std::move(host), std::move(context),
                                      std::move(previous_session), {});
  tls_stream stream = co_await std::move(work);
  co_return stream;
}

}  // namespace detail
}  // namespace gyre::tls
