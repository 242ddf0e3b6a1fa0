// Command inpod asks the API server, from within a pod and as a pod does, who
// it is, and prints the name.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
)

const mounted = "/var/run/secrets/kubernetes.io/serviceaccount/"

func main() {
	name, err := whoAmI()
	if err != nil {
		fmt.Fprintln(os.Stderr, "inpod:", err)
		os.Exit(1)
	}
	fmt.Println(name)
}

func whoAmI() (string, error) {
	token, err := os.ReadFile(mounted + "token")
	if err != nil {
		return "", err
	}
	ca, err := os.ReadFile(mounted + "ca.crt")
	if err != nil {
		return "", err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	url := fmt.Sprintf("https://%s:%s/apis/authentication.k8s.io/v1/selfsubjectreviews",
		os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT"))
	body := []byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`)
	request, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+string(token))
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var review struct {
		Status struct {
			UserInfo struct {
				Username string `json:"username"`
			} `json:"userInfo"`
		} `json:"status"`
	}
	if err := json.NewDecoder(response.Body).Decode(&review); err != nil {
		return "", err
	}
	return review.Status.UserInfo.Username, nil
}
