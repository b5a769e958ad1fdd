// Package fleet tests the manifests in this folder, without a cluster.
package fleet

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// The manifests, as the API's types read them.
type manifests struct {
	deployment appsv1.Deployment
	service    corev1.Service
	budget     policyv1.PodDisruptionBudget
	policy     networkingv1.NetworkPolicy
}

// readManifests reads fleet.yaml strictly: an unknown field or one that is there twice is an error.
func readManifests(t *testing.T, text []byte) (m manifests, err error) {
	t.Helper()
	into := map[string]any{"apps/v1 Deployment": &m.deployment, "v1 Service": &m.service,
		"policy/v1 PodDisruptionBudget": &m.budget, "networking.k8s.io/v1 NetworkPolicy": &m.policy}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var kind struct{ APIVersion, Kind string }
		require.NoError(t, yaml.Unmarshal(document, &kind))
		name := kind.APIVersion + " " + kind.Kind
		require.Contains(t, into, name, "there once")
		if err := yaml.UnmarshalStrict(document, into[name]); err != nil {
			return m, err
		}
		delete(into, name)
	}
	require.Empty(t, into)
	return m, nil
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return text
}

func TestManifestsAreWhatTheAPITakes(t *testing.T) {
	text := readFile(t, "fleet.yaml")
	_, err := readManifests(t, text)
	require.NoError(t, err)
	for wrong, right := range map[string]string{"minAvailable:": "minAvailabel:", "runAsUser: 65532": "runAsUser: me",
		"targetPort:": "target_port:", "policyTypes:": "types:"} {
		require.Contains(t, string(text), wrong)
		_, err := readManifests(t, bytes.Replace(text, []byte(wrong), []byte(right), 1))
		require.Error(t, err, "the check sees %s", right)
	}
}

func TestManifestsFitTogether(t *testing.T) {
	m, err := readManifests(t, readFile(t, "fleet.yaml"))
	require.NoError(t, err)
	labels := m.deployment.Spec.Template.Labels
	require.NotEmpty(t, labels)
	require.Equal(t, labels, m.deployment.Spec.Selector.MatchLabels)
	require.Equal(t, labels, m.service.Spec.Selector)
	require.Equal(t, labels, m.budget.Spec.Selector.MatchLabels)
	require.Equal(t, labels, m.policy.Spec.PodSelector.MatchLabels)
	require.Greater(t, int(*m.deployment.Spec.Replicas), m.budget.Spec.MinAvailable.IntValue(), "a node can be drained")
	container := m.deployment.Spec.Template.Spec.Containers[0]
	port := container.Ports[0]
	for _, name := range []string{m.service.Spec.Ports[0].TargetPort.StrVal, m.policy.Spec.Ingress[0].Ports[0].Port.StrVal,
		container.LivenessProbe.HTTPGet.Port.StrVal, container.ReadinessProbe.HTTPGet.Port.StrVal} {
		require.Equal(t, port.Name, name)
	}
	require.Equal(t, "/healthz", container.LivenessProbe.HTTPGet.Path)
	require.Equal(t, "/readyz", container.ReadinessProbe.HTTPGet.Path)
	require.Contains(t, container.Args, "0.0.0.0:10800")
	require.EqualValues(t, 10800, port.ContainerPort)
	require.True(t, *m.deployment.Spec.Template.Spec.SecurityContext.RunAsNonRoot)
	require.True(t, *container.SecurityContext.ReadOnlyRootFilesystem)
	require.NotEmpty(t, container.Resources.Limits.Memory().String())
	require.Contains(t, string(readFile(t, "README.md")), "`headgate-fleet-client: \"true\"`")
}

// The secret's keys are those that the README makes, and the variables those that the tool reads.
func TestSecretsComeFromTheSecret(t *testing.T) {
	m, err := readManifests(t, readFile(t, "fleet.yaml"))
	require.NoError(t, err)
	usage := help(t)
	readme := string(readFile(t, "README.md"))
	for _, variable := range m.deployment.Spec.Template.Spec.Containers[0].Env {
		require.Empty(t, variable.Value, "no secret stands in the manifest")
		require.Contains(t, usage, variable.Name)
		require.Contains(t, readme, "--from-literal="+variable.ValueFrom.SecretKeyRef.Key+"=")
		require.Contains(t, readme, "secret generic "+variable.ValueFrom.SecretKeyRef.Name)
	}
}

func TestTheArgumentsAreThoseOfTheTool(t *testing.T) {
	m, err := readManifests(t, readFile(t, "fleet.yaml"))
	require.NoError(t, err)
	args := m.deployment.Spec.Template.Spec.Containers[0].Args
	require.Equal(t, "fleet", args[0])
	usage := help(t)
	for _, arg := range args {
		if strings.HasPrefix(arg, "--") {
			require.Regexp(t, `(?m)^  `+regexp.QuoteMeta(arg)+` `, usage)
		}
	}
}

// help is the usage of the command. It is built once for all tests.
func help(t *testing.T) string {
	t.Helper()
	text, err := printHelp()
	require.NoError(t, err)
	return string(text)
}

var printHelp = sync.OnceValues(func() ([]byte, error) {
	tool := exec.Command("go", "run", "./cmd/headgate", "help", "fleet")
	tool.Dir = "../.."
	return tool.Output()
})
