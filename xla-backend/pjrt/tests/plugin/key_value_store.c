/* A plugin whose client uses the key-value callbacks from several threads and reports the outcome as an error. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pjrt_c_api.h"

#define THREADS 8

struct PJRT_Error {
  PJRT_Error_Code code;
  char text[256];
};

static PJRT_Error* make_error(PJRT_Error_Code code, const char* text, size_t size) {
  PJRT_Error* error = calloc(1, sizeof *error);
  error->code = code;
  memcpy(error->text, text, size < 255 ? size : 255);
  return error;
}

static PJRT_CallbackError callback_error = make_error;

static void error_destroy(PJRT_Error_Destroy_Args* args) { free(args->error); }

static void error_message(PJRT_Error_Message_Args* args) {
  args->message = args->error->text;
  args->message_size = strlen(args->error->text);
}

static PJRT_Error* error_code(PJRT_Error_GetCode_Args* args) {
  args->code = args->error->code;
  return NULL;
}

static PJRT_Error* event_await(PJRT_Event_Await_Args* args) {
  (void)args;
  return NULL;
}

static PJRT_Error* get(PJRT_Client_Create_Args* client, const char* key, int wait, char* value, size_t* size) {
  PJRT_KeyValueGetCallback_Args args = {0};
  args.struct_size = PJRT_KeyValueGetCallback_Args_STRUCT_SIZE;
  args.key = key;
  args.key_size = strlen(key);
  args.timeout_in_ms = wait;
  args.callback_error = &callback_error;
  args.user_arg = client->kv_get_user_arg;
  PJRT_Error* error = client->kv_get_callback(&args);
  if (error) return error;
  *size = args.value_size;
  memcpy(value, args.value, args.value_size);
  args.value_deleter_callback(args.value);
  return NULL;
}

static PJRT_Error* try_get(PJRT_Client_Create_Args* client, const char* key) {
  PJRT_KeyValueTryGetCallback_Args args = {0};
  args.struct_size = PJRT_KeyValueTryGetCallback_Args_STRUCT_SIZE;
  args.key = key;
  args.key_size = strlen(key);
  args.callback_error = &callback_error;
  args.user_arg = client->kv_try_get_user_arg;
  PJRT_Error* error = client->kv_try_get_callback(&args);
  if (!error) args.value_deleter_callback(args.value);
  return error;
}

static PJRT_Error* put(PJRT_Client_Create_Args* client, const char* key, const char* value, size_t size) {
  PJRT_KeyValuePutCallback_Args args = {0};
  args.struct_size = PJRT_KeyValuePutCallback_Args_STRUCT_SIZE;
  args.key = key;
  args.key_size = strlen(key);
  args.value = value;
  args.value_size = size;
  args.callback_error = &callback_error;
  args.user_arg = client->kv_put_user_arg;
  return client->kv_put_callback(&args);
}

typedef struct {
  PJRT_Client_Create_Args* client;
  int number;
  int right;
} Node;

/* Waits for the value of the node before it, which has a zero byte, and then gives its own. */
static void* exchange(void* data) {
  Node* node = data;
  char key[16], found[16] = {0}, expected[16] = {0}, own[16] = {0};
  size_t size = 0;
  snprintf(key, sizeof key, "node/%d", node->number - 1);
  expected[1] = own[1] = 'v';
  expected[2] = (char)node->number - 1;
  own[2] = (char)node->number;
  if (node->number > 0 && get(node->client, key, 60000, found, &size)) return NULL;
  node->right = node->number == 0 || (size == 3 && memcmp(found, expected, 3) == 0);
  snprintf(key, sizeof key, "node/%d", node->number);
  if (put(node->client, key, own, 3)) node->right = 0;
  return NULL;
}

static PJRT_Error* client_create(PJRT_Client_Create_Args* args) {
  if (!args->kv_get_callback) return make_error(PJRT_Error_Code_UNAVAILABLE, "no store", 8);
  pthread_t threads[THREADS];
  Node nodes[THREADS];
  int right = 0;
  for (int i = THREADS - 1; i >= 0; i--) {
    nodes[i] = (Node){args, i, 0};
    pthread_create(&threads[i], NULL, exchange, &nodes[i]);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    right += nodes[i].right;
  }
  char value[16], text[256];
  size_t size;
  PJRT_Error* known = try_get(args, "node/0");
  PJRT_Error* absent = try_get(args, "absent");
  PJRT_Error* late = get(args, "absent", 1, value, &size);
  PJRT_Error* panicked = put(args, "panic", "", 0);
  snprintf(text, sizeof text, "%d right; known %d; absent %d; late %d %s; panicked %d", right, known ? known->code : 0,
           absent ? absent->code : 0, late ? late->code : 0, late ? late->text : "", panicked ? panicked->code : 0);
  return make_error(PJRT_Error_Code_ABORTED, text, strlen(text));
}

const PJRT_Api* GetPjrtApi(void) {
  static PJRT_Api api;
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  api.pjrt_api_version.major_version = PJRT_API_MAJOR;
  api.pjrt_api_version.minor_version = PJRT_API_MINOR;
  api.PJRT_Error_Destroy = error_destroy;
  api.PJRT_Error_Message = error_message;
  api.PJRT_Error_GetCode = error_code;
  api.PJRT_Event_Await = event_await;
  api.PJRT_Client_Create = client_create;
  return &api;
}
