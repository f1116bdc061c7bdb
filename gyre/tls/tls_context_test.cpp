// SPDX-License-Identifier: Apache-2.0
// Tests of tls_context: loading, its errors, and the choice of certificates by name.
#include <gyre/tls/tls_context.hpp>

#include <gyre/base/unique_fd.hpp>
#include <gyre/tls/detail/context_state.hpp>
#include <gyre/tls/error.hpp>
#include <tests/support/temporary_folder.hpp>
#include <tests/support/tls_certificates.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace tls_context_test {
namespace {

using gyre::test::issued;
using gyre::test::temporary_folder;
using gyre::test::test_authority;
using gyre::tls::certificate;
using gyre::tls::errc;
using gyre::tls::pem;
using gyre::tls::server_options;
using gyre::tls::tls_context;

certificate in_memory(const issued& from) {
  return {.chain = pem::text(from.certificate), .key = pem::text(from.key)};
}

std::error_code error_of(server_options options) {
  try {
    static_cast<void>(tls_context::server(std::move(options)));
    return {};
  } catch (const std::system_error& error) {
    return error.code();
  }
}

TEST(TlsContext, LoadsFromFilesAndFromMemory) {
  test_authority authority;
  const issued own = authority.issue();
  const temporary_folder folder;
  const certificate from_files{.chain = pem::file(folder.make_file("chain.pem", own.certificate)),
                               .key = pem::file(folder.make_file("key.pem", own.key))};
  EXPECT_TRUE(tls_context::server({.certificates = {from_files}}).is_server());
  const certificate both{.chain = pem::text(own.certificate + own.key), .key = {}};
  const tls_context context = tls_context::server({.certificates = {both}});
  EXPECT_TRUE(context);
  EXPECT_EQ(context.handshake_timeout(), std::chrono::seconds(10));
  EXPECT_FALSE(tls_context());
  EXPECT_FALSE(tls_context::client({.system_authorities = false}).is_server());
}

TEST(TlsContext, TellsWhichPartIsWrong) {
  test_authority authority;
  const issued one = authority.issue();
  const issued other = authority.issue();
  EXPECT_EQ(error_of({}), errc::bad_certificate);
  EXPECT_EQ(error_of({.certificates = {{.chain = pem::text("rubbish"), .key = {}}}}),
            errc::bad_certificate);
  EXPECT_EQ(error_of({.certificates = {{.chain = pem::text(one.certificate), .key = {}}}}),
            errc::bad_private_key);
  EXPECT_EQ(error_of({.certificates = {{.chain = pem::text(one.certificate),
                                        .key = pem::text(other.key)}}}),
            errc::key_mismatch);
  EXPECT_EQ(error_of({.certificates = {{.chain = pem::file("/nowhere.pem"), .key = {}}}}),
            std::errc::no_such_file_or_directory);
  for (const std::vector<std::string>& groups :
       {std::vector<std::string>{}, {""}, {"X25519", "P-255"}}) {
    server_options unknown{.certificates = {in_memory(one)}};
    unknown.groups = groups;
    EXPECT_EQ(error_of(unknown), errc::bad_configuration) << groups.size();
    EXPECT_THROW(static_cast<void>(tls_context::client({.groups = groups})), std::system_error);
  }
  server_options demanding{.certificates = {in_memory(one)}};
  demanding.clients = gyre::tls::client_certificates::required;
  EXPECT_EQ(error_of(demanding), errc::bad_certificate);
  server_options reversed{.certificates = {in_memory(one)}};
  reversed.min_version = gyre::tls::version::tls_1_3;
  reversed.max_version = gyre::tls::version::tls_1_2;
  EXPECT_EQ(error_of(reversed), errc::bad_configuration);
  server_options nameless{.certificates = {in_memory(one)}};
  nameless.application_protocols = {""};
  EXPECT_EQ(error_of(nameless), errc::bad_configuration);
}

TEST(TlsContext, RefusesFilesThatAreCutOff) {
  test_authority authority;
  const issued own = authority.issue();
  const std::string whole = authority.certificate();
  const std::string cut = whole + whole.substr(0, whole.size() / 2);
  server_options options{.certificates = {in_memory(own)}};
  options.certificates.front().chain = pem::text(own.certificate + cut);
  EXPECT_EQ(error_of(options), errc::bad_certificate);
  options.certificates.front().chain = pem::text(own.certificate + whole + "and text");
  EXPECT_EQ(error_of(options), std::error_code());
  options.clients = gyre::tls::client_certificates::requested;
  options.client_authorities = pem::text(cut);
  EXPECT_EQ(error_of(options), errc::bad_certificate);
}

TEST(TlsContext, AFailedReloadChangesNothing) {
  test_authority authority;
  const issued first = authority.issue();
  const temporary_folder folder;
  const std::string chain = folder.make_file("chain.pem", first.certificate);
  const std::string key = folder.make_file("key.pem", first.key);
  const tls_context context =
      tls_context::server({.certificates = {{.chain = pem::file(chain), .key = pem::file(key)}}});
  const auto before = context.state()->current();
  folder.make_file("chain.pem", "half a certificate");
  EXPECT_THROW(context.reload(), std::system_error);
  EXPECT_EQ(context.state()->current(), before);
  const issued second = authority.issue();
  folder.make_file("chain.pem", second.certificate);
  EXPECT_THROW(context.reload(), std::system_error) << "the key is the former one";
  folder.make_file("key.pem", second.key);
  context.reload();
  EXPECT_NE(context.state()->current(), before);
  EXPECT_EQ(context.state()->current()->shared_ticket_keys, before->shared_ticket_keys);
  EXPECT_THROW(context.reload(gyre::tls::client_options{}), std::logic_error);
}

TEST(TlsContext, ASlowReloadReplacesNoNewerOptions) {
  test_authority authority;
  const issued own = authority.issue();
  const temporary_folder folder;
  const std::string chain = folder.make_file("chain.pem", own.certificate);
  const tls_context context =
      tls_context::server({.certificates = {{.chain = pem::file(chain), .key = pem::text(own.key)}},
                           .application_protocols = {"old"}});
  ASSERT_EQ(::unlink(chain.c_str()), 0);
  ASSERT_EQ(::mkfifo(chain.c_str(), 0600), 0);
  std::thread slow([&] { context.reload(); });
  std::ofstream writer(chain);  // open when the other has begun to read
  std::promise<void> done;
  std::thread newer([&] {
    context.reload(
        server_options{.certificates = {in_memory(own)}, .application_protocols = {"newer"}});
    done.set_value();
  });
  // Without a lock it ends first; with it, it waits for the slow one.
  done.get_future().wait_for(std::chrono::milliseconds(50));
  writer << own.certificate;
  writer.close();
  slow.join();
  newer.join();
  const std::vector<unsigned char> expected{5, 'n', 'e', 'w', 'e', 'r'};
  EXPECT_EQ(context.state()->current()->application_protocols, expected);
}

TEST(TlsContext, ReadsTheRulesForClientsOnce) {
  test_authority authority;
  const std::string text = authority.certificate();
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const gyre::unique_fd pipe(ends[0]);
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ASSERT_EQ(::close(ends[1]), 0);  // a second reading gets nothing
  server_options options;
  options.certificates = {in_memory(authority.issue()), in_memory(authority.issue())};
  options.clients = gyre::tls::client_certificates::required;
  options.client_authorities = pem::file("/proc/self/fd/" + std::to_string(pipe.get()));
  EXPECT_EQ(error_of(options), std::error_code());
}

TEST(TlsContext, ChoosesAnExactNameBeforeAWildcard) {
  test_authority authority;
  const issued wide = authority.issue({.alternative_names = "DNS:*.example.org,DNS:example.org"});
  const issued exact = authority.issue({.alternative_names = "DNS:API.example.org"});
  const issued named = authority.issue({.alternative_names = "DNS:unused"});
  certificate by_hand = in_memory(named);
  by_hand.names = {"other.test"};
  const tls_context context = tls_context::server(
      {.certificates = {in_memory(wide), in_memory(exact), by_hand}, .refuse_unknown_names = true});
  const auto loaded = context.state()->current();
  const auto* const entries = loaded->entries.data();
  EXPECT_EQ(loaded->entry_for("example.org"), entries);
  EXPECT_EQ(loaded->entry_for("www.EXAMPLE.org"), entries);
  EXPECT_EQ(loaded->entry_for("api.example.org."), entries + 1);
  EXPECT_EQ(loaded->entry_for("other.test"), entries + 2);
  EXPECT_EQ(loaded->entry_for("unused"), nullptr);
  EXPECT_EQ(loaded->entry_for("a.b.example.org"), nullptr);
  EXPECT_EQ(loaded->entry_for(".example.org"), nullptr);
  EXPECT_EQ(loaded->entry_for(""), nullptr);
}

TEST(TlsContext, ErrorsHaveMessagesAndConditions) {
  for (int code = 1; code <= 63; ++code) {
    const std::error_code error(code, gyre::tls::tls_category());
    const bool is_used =
        (code <= 11) || (code >= 20 && code <= 27) || (code >= 40 && code <= 41) || (code >= 60);
    EXPECT_EQ(error.message() != "unknown error", is_used) << code;
  }
  EXPECT_EQ(make_error_code(errc::certificate_expired), std::errc::permission_denied);
  EXPECT_EQ(make_error_code(errc::handshake_timeout), std::errc::timed_out);
  EXPECT_STREQ(gyre::tls::tls_category().name(), "gyre.tls");
}

}  // namespace
}  // namespace tls_context_test
