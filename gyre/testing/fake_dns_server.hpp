// SPDX-License-Identifier: Apache-2.0
// fake_dns_server: a name server on the loopback interface, which runs on the loop of a test and
// sends the replies that the test sets.
//
//     gyre::testing::fake_dns_server dns(loop);
//     dns["www.example.org"] = {.addresses = {gyre::net::ip_address::loopback_v4()}};
//     dns["broken.example.org"] = {.reply = gyre::testing::fake_dns_server::reply_kind::none};
//     gyre::net::resolver resolver(loop, {.servers = {dns.local_endpoint()}});
#pragma once

#include <gyre/exec/event_loop.hpp>
#include <gyre/exec/fd_watch.hpp>
#include <gyre/net/address.hpp>
#include <gyre/net/endpoint.hpp>
#include <gyre/net/socket.hpp>

#include <cstddef>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gyre::testing {

/// Answers questions by UDP, and by TCP at the same port. Names that the test has not set do not
/// exist. To use no other server and no file, construct the resolver with lookup_order::dns_only.
///
/// Thread-safety: the loop's thread; while no thread runs the loop, one thread at a time.
/// Lifetime: must not outlive the loop, whose poller must support descriptors.
/// Errors: the constructor throws std::system_error.
class fake_dns_server {
 public:
  /// How the server replies to a question for a name.
  enum class reply_kind {
    normal,          ///< the records, or a reply without records
    refused,         ///< the error REFUSED
    server_failure,  ///< the error SERVFAIL
    none,            ///< no reply: the resolver's query times out
    truncated,       ///< by UDP a reply with the flag TC; by TCP a normal reply
    malformed,       ///< bytes that are not a valid message
  };
  /// A record of a type other than A and AAAA; see srv(), txt() and ptr().
  struct record {
    unsigned type;
    std::string data;
  };
  /// The settings of a name.
  struct host {
    /// Addresses, which are sent as A and AAAA records.
    std::vector<net::ip_address> addresses = {};
    reply_kind reply = reply_kind::normal;
    /// The time for which the records may be cached, in seconds.
    unsigned ttl = 60;
    /// The time for which the absence of a record may be cached, in seconds; nullopt: sends no SOA
    /// record.
    std::optional<unsigned> negative_ttl = {};
    /// Records that are sent in replies to questions for their type.
    std::vector<record> records = {};
    bool exists = true;
  };

  explicit fake_dns_server(event_loop& loop);
  fake_dns_server(const fake_dns_server&) = delete;
  fake_dns_server& operator=(const fake_dns_server&) = delete;

  /// The address for resolver_options::servers.
  net::endpoint local_endpoint() const { return udp_.local_endpoint(); }
  /// Returns the settings of `name`, such as "www.example.org"; adds the name if it is missing.
  host& operator[](const std::string& name) { return hosts_[name]; }

  /// Construct records, with names such as "www.example.org".
  static record srv(unsigned priority, unsigned weight, unsigned port, std::string_view target);
  /// Constructs a TXT record, as srv() does for SRV.
  static record txt(const std::vector<std::string>& parts);
  /// Constructs a PTR record, as srv() does for SRV.
  static record ptr(std::string_view name);

  /// The questions received so far, such as "A example.org".
  const std::vector<std::string>& questions() const noexcept { return questions_; }
  /// The number of questions received by TCP.
  std::size_t tcp_questions() const noexcept { return tcp_questions_; }
  /// The number of open TCP connections.
  std::size_t tcp_connections() const noexcept { return connections_.size(); }

  /// Delays replies by UDP to questions that begin with `prefix`, such as "AAAA ", until release().
  void hold(std::string prefix = "") { held_prefix_ = std::move(prefix); }
  /// The number of delayed replies.
  std::size_t held() const noexcept { return held_replies_.size(); }
  /// Sends the delayed replies, and delays no further ones.
  void release();

  /// Makes the server reset its TCP connections after the next UDP reply. It shuts down their
  /// sending sides first, so that the client's next write fails with EPIPE.
  void reset_tcp_after_next_answer() noexcept { resets_tcp_ = true; }

 private:
  struct connection {
    connection(fake_dns_server& server, net::socket client_socket);
    net::socket socket;
    std::string input;
    fd_watch watch;
  };

  void serve_udp();
  void send(const std::string& reply_bytes, const net::endpoint& client);
  void accept();
  void serve_tcp(connection& client);
  void reset_tcp();
  std::optional<std::string> reply_to(std::string_view message, bool by_udp);

  event_loop& loop_;
  net::socket udp_;
  net::socket tcp_;
  std::optional<fd_watch> watch_udp_;
  std::optional<fd_watch> watch_tcp_;
  std::list<connection> connections_;
  std::map<std::string, host> hosts_;
  std::vector<std::string> questions_;
  std::size_t tcp_questions_ = 0;
  std::optional<std::string> held_prefix_;
  bool resets_tcp_ = false;
  std::vector<std::pair<std::string, net::endpoint>> held_replies_;
};

}  // namespace gyre::testing
