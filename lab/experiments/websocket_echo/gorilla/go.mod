module gyre_lab_gorilla_server

go 1.20

require github.com/gorilla/websocket v1.5.3
