// SPDX-License-Identifier: Apache-2.0
// callbacks: the functions that OpenSSL calls for an engine.
#pragma once

#include <gyre/tls/detail/openssl.hpp>

#include <cstddef>

namespace gyre::tls::detail {

class engine;

/// Functions that OpenSSL calls: the engine's BIO, the choices of servers, and the checks of peers.
/// Each function finds its engine through the BIO, because ex_data of the SSL would cost two
/// allocations.
struct callbacks {
  static engine& engine_of(BIO* bio) noexcept { return *static_cast<engine*>(BIO_get_data(bio)); }
  static engine& engine_of(const SSL* ssl) noexcept { return engine_of(SSL_get_rbio(ssl)); }

  // --- The BIO ---

  static int read(BIO* bio, char* buffer, std::size_t size, std::size_t* count);
  static int write(BIO* bio, const char* bytes, std::size_t size, std::size_t* count);
  static long control(BIO* bio, int command, long number, void* pointer);
  /// Returns the method of the BIO, or null if memory is exhausted.
  static BIO_METHOD* method();
  static void note_step(const SSL* ssl, int step, int value);

  // --- Servers ---

  static int note_hello(SSL* ssl, int* alert, void* argument);
  static int accept_name(SSL* ssl, int* alert, void* argument);
  static int choose_certificate(SSL* ssl, void* argument);
  static int choose_application_protocol(SSL* ssl, const unsigned char** choice,
                                         unsigned char* size, const unsigned char* offered_names,
                                         unsigned int offered_size, void* argument);
  static int staple(SSL* ssl, void* argument);
  static int protect_ticket(SSL* ssl, unsigned char* name, unsigned char* iv,
                            EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac, int is_encrypting);
  static SSL_TICKET_RETURN judge_ticket(SSL* ssl, SSL_SESSION* session, const unsigned char* name,
                                        std::size_t size, SSL_TICKET_STATUS status, void* argument);

  // --- Certificates of peers ---

  static int verify_chain(X509_STORE_CTX* chain, void* argument);
  static int verified(int is_good, X509_STORE_CTX* chain);

  // --- Clients ---

  static int keep_session(SSL* ssl, SSL_SESSION* ssl_session);
};

/// The two functions below set the callbacks of a server's or a client's context.
void set_server_callbacks(SSL_CTX* context, bool has_tickets);
void set_client_callbacks(SSL_CTX* context);
/// Calls SSL_CTX_set_verify() with `mode`, and adds the checks in `callbacks`.
void enable_verification(SSL_CTX* context, int mode);

/// Copies a session for one connection; returns null if memory is exhausted. Connections on several
/// threads must not share a session, because OpenSSL takes no lock when it marks the session of a
/// failed connection as not resumable.
ssl_session_ptr copy_of(const SSL_SESSION* session);

}  // namespace gyre::tls::detail
