// Package management holds rabbit-hole, the Go client of RabbitMQ's management API, against the
// broker that MANAGEMENT_URL names. Terraform's provider is made of these calls: each resource is
// made, read, changed, read and deleted, and read once more, as the provider does it.
// test_go_management.py runs it and reads its report.
package management

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
)

const vhost = "terraform"

func client(t *testing.T) *rabbithole.Client {
	t.Helper()
	address := os.Getenv("MANAGEMENT_URL")
	if address == "" {
		t.Fatal("MANAGEMENT_URL names no broker")
	}
	made, err := rabbithole.NewClient(address, "guest", "guest")
	check(t, err)
	return made
}

// within gives a client, and a virtual host that guest may use and that goes with the test.
func within(t *testing.T) *rabbithole.Client {
	t.Helper()
	rmqc := client(t)
	done(t)(rmqc.PutVhost(vhost, rabbithole.VhostSettings{}))
	t.Cleanup(func() { done(t)(rmqc.DeleteVhost(vhost)) })
	all := rabbithole.Permissions{Configure: ".*", Write: ".*", Read: ".*"}
	done(t)(rmqc.UpdatePermissionsIn(vhost, "guest", all))
	return rmqc
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t *testing.T, found, wanted T) {
	t.Helper()
	if found != wanted {
		t.Fatalf("%v instead of %v", found, wanted)
	}
}

// done holds the answer to a change to be a success.
func done(t *testing.T) func(*http.Response, error) *http.Response {
	return func(response *http.Response, err error) *http.Response {
		t.Helper()
		check(t, err)
		if response.StatusCode >= 300 {
			t.Fatalf("%s for %s", response.Status, response.Request.URL)
		}
		return response
	}
}

// gone holds an error to say that there is no such object, by which the provider forgets it.
func gone(t *testing.T, err error) {
	t.Helper()
	var refusal rabbithole.ErrorResponse
	if !errors.As(err, &refusal) || refusal.StatusCode != http.StatusNotFound {
		t.Fatalf("%v instead of 404", err)
	}
}

func TestOverviewAndLists(t *testing.T) {
	rmqc := client(t)
	overview, err := rmqc.Overview()
	check(t, err)
	nodes, err := rmqc.ListNodes()
	check(t, err)
	equal(t, len(nodes), 1)
	equal(t, nodes[0].Name, overview.Node)
	node, err := rmqc.GetNode(overview.Node)
	check(t, err)
	equal(t, node.IsRunning, true)
	whoami, err := rmqc.Whoami()
	check(t, err)
	equal(t, whoami.Name, "guest")
	_, err = rmqc.ListConnections()
	check(t, err)
	_, err = rmqc.ListChannels()
	check(t, err)
	_, err = rmqc.ListConsumers()
	check(t, err)
	_, err = rmqc.ListQueues()
	check(t, err)
	_, err = rmqc.ListExchanges()
	check(t, err)
	_, err = rmqc.ListBindings()
	check(t, err)
	_, err = rmqc.ListFeatureFlags()
	check(t, err)
	_, err = rmqc.ListGlobalParameters()
	check(t, err)
	definitions, err := rmqc.ListDefinitions()
	check(t, err)
	equal(t, definitions.RabbitVersion, overview.RabbitMQVersion)
}

func TestVhost(t *testing.T) {
	rmqc := client(t)
	done(t)(rmqc.PutVhost("made", rabbithole.VhostSettings{Description: "first"}))
	done(t)(rmqc.PutVhost("made", rabbithole.VhostSettings{Description: "second", Tracing: true}))
	read, err := rmqc.GetVhost("made")
	check(t, err)
	equal(t, read.Description, "second")
	equal(t, read.Tracing, true)
	done(t)(rmqc.DeleteVhost("made"))
	_, err = rmqc.GetVhost("made")
	gone(t, err)
}

func TestUserAndPermissions(t *testing.T) {
	rmqc := within(t)
	settings := rabbithole.UserSettings{Password: "p", Tags: rabbithole.UserTags{"management"}}
	done(t)(rmqc.PutUser("made", settings))
	t.Cleanup(func() { done(t)(rmqc.DeleteUser("made")) })
	user, err := rmqc.GetUser("made")
	check(t, err)
	equal(t, len(user.Tags), 1)
	equal(t, user.Tags[0], "management")
	if user.PasswordHash == "" {
		t.Fatal("no hash of the password")
	}
	hash := rabbithole.Base64EncodedSaltedPasswordHashSHA256("q")
	done(t)(rmqc.PutUser("made", rabbithole.UserSettings{
		PasswordHash: hash, HashingAlgorithm: rabbithole.HashingAlgorithmSHA256,
	}))
	user, err = rmqc.GetUser("made")
	check(t, err)
	equal(t, user.PasswordHash, hash)

	done(t)(rmqc.UpdatePermissionsIn(vhost, "made", rabbithole.Permissions{Read: "^r"}))
	permissions, err := rmqc.GetPermissionsIn(vhost, "made")
	check(t, err)
	equal(t, permissions.Read, "^r")
	equal(t, permissions.Write, "")
	done(t)(rmqc.ClearPermissionsIn(vhost, "made"))
	_, err = rmqc.GetPermissionsIn(vhost, "made")
	gone(t, err)

	topics := rabbithole.TopicPermissions{Exchange: "amq.topic", Write: "^w", Read: "^r"}
	done(t)(rmqc.UpdateTopicPermissionsIn(vhost, "made", topics))
	read, err := rmqc.GetTopicPermissionsIn(vhost, "made")
	check(t, err)
	equal(t, len(read), 1)
	equal(t, read[0].Write, "^w")
	done(t)(rmqc.ClearTopicPermissionsIn(vhost, "made"))
	_, err = rmqc.GetTopicPermissionsIn(vhost, "made")
	gone(t, err)
}

func TestExchangeQueueAndBinding(t *testing.T) {
	rmqc := within(t)
	arguments := map[string]interface{}{"alternate-exchange": "amq.fanout"}
	done(t)(rmqc.DeclareExchange(vhost, "x", rabbithole.ExchangeSettings{
		Type: "topic", Durable: true, Arguments: arguments,
	}))
	exchange, err := rmqc.GetExchange(vhost, "x")
	check(t, err)
	equal(t, exchange.Type, "topic")
	equal(t, exchange.Durable, true)
	equal(t, exchange.Arguments["alternate-exchange"].(string), "amq.fanout")

	done(t)(rmqc.DeclareQueue(vhost, "q", rabbithole.QueueSettings{
		Durable: true, Arguments: map[string]interface{}{"x-max-length": 5},
	}))
	queue, err := rmqc.GetQueue(vhost, "q")
	check(t, err)
	equal(t, queue.Durable, true)
	equal(t, queue.AutoDelete, rabbithole.AutoDelete(false))
	equal(t, queue.Arguments["x-max-length"].(float64), 5)

	for _, asked := range []rabbithole.BindingInfo{
		{Source: "x", Destination: "q", DestinationType: "queue"},
		{Source: "x", Destination: "q", DestinationType: "queue", RoutingKey: "a.#"},
		{Source: "x", Destination: "q", DestinationType: "queue", RoutingKey: "a b~c%"},
		{
			Source: "x", Destination: "q", DestinationType: "queue", RoutingKey: "k",
			Arguments: map[string]interface{}{"n": 1, "s": "t"},
		},
		{Source: "x", Destination: "amq.fanout", DestinationType: "exchange", RoutingKey: "e"},
	} {
		checkBinding(t, rmqc, asked)
	}
	done(t)(rmqc.PurgeQueue(vhost, "q"))
	done(t)(rmqc.DeleteQueue(vhost, "q"))
	_, err = rmqc.GetQueue(vhost, "q")
	gone(t, err)
	done(t)(rmqc.DeleteExchange(vhost, "x"))
	_, err = rmqc.GetExchange(vhost, "x")
	gone(t, err)
}

// checkBinding makes a binding, finds it by the key in Location as the provider does, and ends it.
func checkBinding(t *testing.T, rmqc *rabbithole.Client, asked rabbithole.BindingInfo) {
	t.Helper()
	response := done(t)(rmqc.DeclareBinding(vhost, asked))
	location := strings.Split(response.Header.Get("Location"), "/")
	key, err := url.PathUnescape(location[len(location)-1])
	check(t, err)
	asked.PropertiesKey = key
	equal(t, count(t, rmqc, asked), 1)
	done(t)(rmqc.DeleteBinding(vhost, asked))
	equal(t, count(t, rmqc, asked), 0)
}

func count(t *testing.T, rmqc *rabbithole.Client, wanted rabbithole.BindingInfo) int {
	t.Helper()
	between := rmqc.ListQueueBindingsBetween
	if wanted.DestinationType == "exchange" {
		between = rmqc.ListExchangeBindingsBetween
	}
	bindings, err := between(vhost, wanted.Source, wanted.Destination)
	check(t, err)
	found := 0
	for _, each := range bindings {
		if each.PropertiesKey == wanted.PropertiesKey && each.RoutingKey == wanted.RoutingKey {
			found++
		}
	}
	return found
}

func TestPolicies(t *testing.T) {
	rmqc := within(t)
	policy := rabbithole.Policy{
		Pattern: "^q", ApplyTo: "queues", Priority: 3,
		Definition: rabbithole.PolicyDefinition{"max-length": 5},
	}
	done(t)(rmqc.PutPolicy(vhost, "p", policy))
	policy.Priority = 4
	done(t)(rmqc.PutPolicy(vhost, "p", policy))
	read, err := rmqc.GetPolicy(vhost, "p")
	check(t, err)
	equal(t, read.Priority, 4)
	equal(t, read.Definition["max-length"].(float64), 5)
	done(t)(rmqc.DeletePolicy(vhost, "p"))
	_, err = rmqc.GetPolicy(vhost, "p")
	gone(t, err)

	done(t)(rmqc.PutOperatorPolicy(vhost, "o", rabbithole.OperatorPolicy{
		Pattern: "^q", ApplyTo: "queues", Definition: rabbithole.PolicyDefinition{"max-length": 5},
	}))
	operator, err := rmqc.GetOperatorPolicy(vhost, "o")
	check(t, err)
	equal(t, operator.Pattern, "^q")
	done(t)(rmqc.DeleteOperatorPolicy(vhost, "o"))
	_, err = rmqc.GetOperatorPolicy(vhost, "o")
	gone(t, err)
}

func TestLimits(t *testing.T) {
	rmqc := within(t)
	done(t)(rmqc.PutVhostLimits(vhost, rabbithole.VhostLimitsValues{"max-queues": 7}))
	limits, err := rmqc.GetVhostLimits(vhost)
	check(t, err)
	equal(t, len(limits), 1)
	equal(t, limits[0].Value["max-queues"], 7)
	done(t)(rmqc.DeleteVhostLimits(vhost, rabbithole.VhostLimits{"max-queues"}))
	limits, err = rmqc.GetVhostLimits(vhost)
	check(t, err)
	equal(t, len(limits), 0)
}

func TestShovelAndUpstreamAreKept(t *testing.T) {
	rmqc := within(t)
	done(t)(rmqc.DeclareShovel(vhost, "s", rabbithole.ShovelDefinition{
		SourceURI: rabbithole.URISet{"amqp://"}, SourceQueue: "q",
		DestinationURI: rabbithole.URISet{"amqp://"}, DestinationQueue: "r",
	}))
	shovel, err := rmqc.GetShovel(vhost, "s")
	check(t, err)
	equal(t, shovel.Definition.SourceQueue, "q")
	done(t)(rmqc.DeleteShovel(vhost, "s"))
	_, err = rmqc.GetShovel(vhost, "s")
	gone(t, err)

	done(t)(rmqc.PutFederationUpstream(vhost, "u", rabbithole.FederationDefinition{
		Uri: rabbithole.URISet{"amqp://"}, Expires: 5,
	}))
	upstream, err := rmqc.GetFederationUpstream(vhost, "u")
	check(t, err)
	equal(t, upstream.Definition.Expires, 5)
	done(t)(rmqc.DeleteFederationUpstream(vhost, "u"))
	_, err = rmqc.GetFederationUpstream(vhost, "u")
	gone(t, err)
}

func TestClusterName(t *testing.T) {
	rmqc := client(t)
	before, err := rmqc.GetClusterName()
	check(t, err)
	done(t)(rmqc.SetClusterName(rabbithole.ClusterName{Name: "harbour"}))
	found, err := rmqc.GetClusterName()
	check(t, err)
	equal(t, found.Name, "harbour")
	done(t)(rmqc.SetClusterName(*before))
}

func TestHealthChecks(t *testing.T) {
	rmqc := client(t)
	alarms, err := rmqc.HealthCheckAlarms()
	check(t, err)
	equal(t, alarms.Ok(), true)
	vhosts, err := rmqc.HealthCheckVirtualHosts()
	check(t, err)
	equal(t, vhosts.Ok(), true)
	protocol, err := rmqc.HealthCheckProtocolListener(rabbithole.AMQP091)
	check(t, err)
	equal(t, protocol.Ok(), true)
	port, err := rmqc.HealthCheckPortListener(1)
	check(t, err)
	equal(t, port.Ok(), false)
}
