// Scalers answers, a line of JSON each, whether KEDA builds a scaler of a trigger: it calls KEDA's own constructors, which
// read the metadata, the environment and the parameters of a TriggerAuthentication before they connect to anything.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kedav1alpha1 "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	"github.com/kedacore/keda/v2/pkg/scalers"
	"github.com/kedacore/keda/v2/pkg/scalers/scalersconfig"
)

// question is a trigger with what KEDA has resolved for it.
type question struct {
	Type       string            `json:"type"`
	Metadata   map[string]string `json:"metadata"`
	Auth       map[string]string `json:"auth"`
	Env        map[string]string `json:"env"`
	Identity   string            `json:"identity"`
	MetricType string            `json:"metricType"`
	Modifiers  bool              `json:"modifiers"`
}

// answer has the error of the constructor; connects where it came after the metadata had been read.
type answer struct {
	Error    string `json:"error,omitempty"`
	Connects bool   `json:"connects,omitempty"`
}

type config = *scalersconfig.ScalerConfig

func plain(build func(config) (scalers.Scaler, error)) func(context.Context, config) (scalers.Scaler, error) {
	return func(_ context.Context, c config) (scalers.Scaler, error) { return build(c) }
}

func redis(cluster, sentinel bool) func(context.Context, config) (scalers.Scaler, error) {
	return func(ctx context.Context, c config) (scalers.Scaler, error) {
		return scalers.NewRedisScaler(ctx, cluster, sentinel, c)
	}
}

func streams(cluster, sentinel bool) func(context.Context, config) (scalers.Scaler, error) {
	return func(ctx context.Context, c config) (scalers.Scaler, error) {
		return scalers.NewRedisStreamsScaler(ctx, cluster, sentinel, c)
	}
}

func resource(name corev1.ResourceName) func(context.Context, config) (scalers.Scaler, error) {
	return func(_ context.Context, c config) (scalers.Scaler, error) { return scalers.NewCPUMemoryScaler(name, c) }
}

// noCluster stands for the cluster, which no constructor asks while it reads metadata.
var noCluster client.Client

var constructors = map[string]func(context.Context, config) (scalers.Scaler, error){
	"activemq":             plain(scalers.NewActiveMQScaler),
	"apache-kafka":         scalers.NewApacheKafkaScaler,
	"arangodb":             plain(scalers.NewArangoDBScaler),
	"artemis-queue":        plain(scalers.NewArtemisQueueScaler),
	"aws-cloudwatch":       scalers.NewAwsCloudwatchScaler,
	"aws-dynamodb":         scalers.NewAwsDynamoDBScaler,
	"aws-dynamodb-streams": scalers.NewAwsDynamoDBStreamsScaler,
	"aws-kinesis-stream":   scalers.NewAwsKinesisStreamScaler,
	"aws-sqs-queue":        scalers.NewAwsSqsQueueScaler,
	"azure-app-insights":   plain(scalers.NewAzureAppInsightsScaler),
	"azure-blob":           plain(scalers.NewAzureBlobScaler),
	"azure-cosmosdb":       plain(scalers.NewAzureCosmosDBScaler),
	"azure-data-explorer":  plain(scalers.NewAzureDataExplorerScaler),
	"azure-eventhub":       plain(scalers.NewAzureEventHubScaler),
	"azure-log-analytics":  plain(scalers.NewAzureLogAnalyticsScaler),
	"azure-monitor":        plain(scalers.NewAzureMonitorScaler),
	"azure-pipelines":      scalers.NewAzurePipelinesScaler,
	"azure-queue":          plain(scalers.NewAzureQueueScaler),
	"azure-servicebus":     plain(scalers.NewAzureServiceBusScaler),
	"beanstalkd":           plain(scalers.NewBeanstalkdScaler),
	"cassandra":            plain(scalers.NewCassandraScaler),
	"clickhouse":           plain(scalers.NewClickHouseScaler),
	"couchdb":              scalers.NewCouchDBScaler,
	"cpu":                  resource(corev1.ResourceCPU),
	"cron":                 plain(scalers.NewCronScaler),
	"datadog":              plain(scalers.NewDatadogScaler),
	"dynatrace":            plain(scalers.NewDynatraceScaler),
	"elastic-forecast":     plain(scalers.NewElasticForecastScaler),
	"elasticsearch":        plain(scalers.NewElasticsearchScaler),
	"etcd":                 plain(scalers.NewEtcdScaler),
	"external":             plain(scalers.NewExternalScaler),
	"external-mock":        plain(scalers.NewExternalMockScaler),
	"external-push":        plain(func(c config) (scalers.Scaler, error) { return scalers.NewExternalPushScaler(c) }),
	"forgejo-runner":       plain(scalers.NewForgejoRunnerScaler),
	"gcp-cloudtasks":       plain(scalers.NewGcpCloudTasksScaler),
	"gcp-pubsub":           plain(scalers.NewPubSubScaler),
	"gcp-spanner":          plain(scalers.NewGcpSpannerScaler),
	"gcp-stackdriver":      scalers.NewStackdriverScaler,
	"gcp-storage":          plain(scalers.NewGcsScaler),
	"github-runner":        plain(scalers.NewGitHubRunnerScaler),
	"graphite":             plain(scalers.NewGraphiteScaler),
	"huawei-cloudeye":      plain(scalers.NewHuaweiCloudeyeScaler),
	"ibmmq":                plain(scalers.NewIBMMQScaler),
	"influxdb":             plain(scalers.NewInfluxDBScaler),
	"kafka":                scalers.NewKafkaScaler,
	"kubernetes-resource":  plain(func(c config) (scalers.Scaler, error) { return scalers.NewKubernetesResourceScaler(noCluster, c) }),
	"kubernetes-workload":  plain(func(c config) (scalers.Scaler, error) { return scalers.NewKubernetesWorkloadScaler(noCluster, c) }),
	"liiklus":              plain(scalers.NewLiiklusScaler),
	"loki":                 plain(scalers.NewLokiScaler),
	"memory":               resource(corev1.ResourceMemory),
	"metrics-api":          plain(func(c config) (scalers.Scaler, error) { return scalers.NewMetricsAPIScaler(c, noCluster) }),
	"mongodb":              scalers.NewMongoDBScaler,
	"mssql":                scalers.NewMSSQLScaler,
	"mysql":                plain(scalers.NewMySQLScaler),
	"nats-jetstream":       plain(scalers.NewNATSJetStreamScaler),
	"new-relic":            plain(scalers.NewNewRelicScaler),
	"nsq":                  plain(scalers.NewNSQScaler),
	"opensearch":           plain(scalers.NewOpensearchScaler),
	"openstack-metric":     scalers.NewOpenstackMetricScaler,
	"openstack-swift":      scalers.NewOpenstackSwiftScaler,
	"postgresql":           scalers.NewPostgreSQLScaler,
	"predictkube": func(ctx context.Context, c config) (scalers.Scaler, error) {
		return scalers.NewPredictKubeScaler(ctx, c)
	},
	"prometheus": plain(scalers.NewPrometheusScaler),
	"pulsar":     plain(scalers.NewPulsarScaler),
	"rabbitmq":   plain(scalers.NewRabbitMQScaler),

	"redis":                  redis(false, false),
	"redis-cluster":          redis(true, false),
	"redis-sentinel":         redis(false, true),
	"redis-streams":          streams(false, false),
	"redis-cluster-streams":  streams(true, false),
	"redis-sentinel-streams": streams(false, true),

	"selenium-grid":           plain(scalers.NewSeleniumGridScaler),
	"solace-direct-messaging": plain(scalers.NewSolaceDMScaler),
	"solace-event-queue":      plain(scalers.NewSolaceScaler),
	"solarwinds":              plain(scalers.NewSolarWindsScaler),
	"solr":                    plain(scalers.NewSolrScaler),
	"splunk":                  plain(scalers.NewSplunkScaler),
	"splunk-observability":    plain(scalers.NewSplunkObservabilityScaler),
	"sumologic":               plain(scalers.NewSumologicScaler),
	"temporal":                scalers.NewTemporalScaler,
}

// words of errors that a server, or its absence, gives.
var words = []string{
	"connection refused", "connect:", "no such host", "deadline exceeded", "server selection", "out of available brokers",
	"connection closed", "no hosts", "unable to connect", "i/o timeout", "EOF", "transport: ", "name resolver", "error inspecting",
}

func ask(q question) (out answer) {
	defer func() {
		if panicked := recover(); panicked != nil {
			out = answer{Error: fmt.Sprintf("panic: %v", panicked)}
		}
	}()
	build := constructors[q.Type]
	if build == nil {
		return answer{Error: "no scaler of type " + q.Type}
	}
	// No constructor needs longer to read metadata; those that connect find nobody.
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	text := func(m map[string]string) map[string]string {
		if m == nil {
			return map[string]string{}
		}
		return m
	}
	scaler, err := build(ctx, &scalersconfig.ScalerConfig{
		ScalableObjectName:      "name",
		ScalableObjectNamespace: "default",
		ScalableObjectType:      "ScaledObject",
		GlobalHTTPTimeout:       time.Second,
		TriggerType:             q.Type,
		TriggerMetadata:         text(q.Metadata),
		ResolvedEnv:             text(q.Env),
		AuthParams:              text(q.Auth),
		PodIdentity:             kedav1alpha1.AuthPodIdentity{Provider: kedav1alpha1.PodIdentityProvider(q.Identity)},
		TriggerUniqueKey:        "ScaledObject-default-name-0",
		MetricType:              v2.MetricTargetType(q.MetricType),
		AsMetricSource:          q.Modifiers,
		Recorder:                &events.FakeRecorder{},
		ScaledObject:            &kedav1alpha1.ScaledObject{},
	})
	if err == nil {
		if scaler != nil {
			go func() {
				defer func() { _ = recover() }()
				_ = scaler.Close(ctx)
			}()
		}
		return answer{}
	}
	if strings.Contains(err.Error(), "missing required parameter") {
		return answer{Error: err.Error()}
	}
	// An error of a URL is one of the network by its type.
	var network net.Error
	var address *url.Error
	parsed := errors.As(err, &address) && address.Op == "parse"
	out = answer{Error: err.Error(), Connects: !parsed && errors.As(err, &network) || errors.Is(err, io.EOF)}
	for _, word := range words {
		out.Connects = out.Connects || strings.Contains(out.Error, word)
	}
	return out
}

func main() {
	log.SetLogger(logr.Discard())
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	// Libraries print to standard output, which is for answers.
	out := bufio.NewWriter(os.Stdout)
	os.Stdout = os.Stderr
	type slot chan answer
	slots := make(chan slot, 64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for slot := range slots {
			line, err := json.Marshal(<-slot)
			if err != nil {
				panic(err)
			}
			_, _ = out.Write(append(line, '\n'))
		}
		_ = out.Flush()
	}()
	for lines.Scan() {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		answered := make(slot, 1)
		slots <- answered
		go func() {
			reply := make(chan answer, 1)
			go func() { reply <- ask(q) }()
			select {
			case a := <-reply:
				answered <- a
			case <-time.After(4 * time.Second):
				answered <- answer{Error: "no answer in time", Connects: true}
			}
		}()
	}
	close(slots)
	<-done
}
